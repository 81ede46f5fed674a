from tests.agent.ci.judge import judge

__all__ = ["judge"]
