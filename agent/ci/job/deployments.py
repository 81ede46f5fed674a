"""Recognizes a failing step that deploys, publishes or releases: no repair of the code makes it pass. Pure.

Only well-known commands and actions count. What is missed is examined like any other failing step.
"""

from __future__ import annotations

import re

from agent.ci.expressions import Unknown
from agent.ci.job.selection import FailedJob, select_leg
from agent.ci.project.detection import Project
from agent.ci.workflows.document import WorkflowProblem
from agent.ci.workflows.shapes import OPENING
from agent.ci.workflows.shown_names import find_step
from agent.guest.text import one_line

_COMMAND = re.compile(
    r"(?m)(?:^|[;&|]\s*)\s*(?:sudo\s+)?(?:npx\s+|python3?\s+-m\s+|uvx?\s+(?:run\s+)?|poetry\s+run\s+)?"
    r"(twine\s+upload|uv\s+publish|poetry\s+publish|flit\s+publish|hatch\s+publish|npm\s+publish|yarn\s+(?:npm\s+)?publish"
    r"|pnpm\s+publish|cargo\s+publish|mvn\s+deploy|gh\s+release|semantic-release|goreleaser|docker\s+push|kubectl\s|helm\s+upgrade"
    r"|terraform\s+apply|pulumi\s+up|flyctl\s+deploy|fly\s+deploy|vercel\s|netlify\s+deploy|wrangler\s+(?:deploy|publish)"
    r"|firebase\s+deploy|gcloud\s|aws\s|az\s|heroku\s|eb\s+deploy|cdk\s+deploy|serverless\s+deploy|mkdocs\s+gh-deploy|mike\s+deploy"
    r"|rsync\s|scp\s|ssh\s)"
)
_ACTION = re.compile(
    r"(?i)(pypa/gh-action-pypi-publish|actions/deploy-pages|actions/upload-pages-artifact|peaceiris/actions-gh-pages"
    r"|JamesIves/github-pages-deploy-action|softprops/action-gh-release|ncipollo/release-action|actions/create-release"
    r"|goreleaser/goreleaser-action|cycjimmy/semantic-release-action|changesets/action|googleapis/release-please-action"
    r"|docker/login-action|aws-actions/[\w-]+|google-github-actions/[\w-]+|azure/[\w-]+|superfly/[\w-]+|cloudflare/[\w-]+"
    r"|appleboy/(?:ssh|scp)-action|easingthemes/ssh-deploy)@"
)


def deployment(job: FailedJob) -> str:
    """The command or action with which the failing step deploys; "" if it does not, or is unknown."""
    if job.failed_step is None:
        return ""
    leg = select_leg(job, Project.of_texts({}), ".")
    if isinstance(leg, WorkflowProblem):
        return ""
    step = find_step(leg.job, job.failed_step, lambda text: Unknown(text) if OPENING in text else text)
    if isinstance(step, WorkflowProblem):
        return ""
    if step.uses:
        return found[1] if (found := _ACTION.match(step.uses)) else ""
    # A script that also does something else may fail there.
    lines = [line for line in (step.run or "").splitlines() if line.strip() and not line.strip().startswith("#")]
    found = _COMMAND.search(lines[-1]) if lines else None
    return one_line(found[1].strip(), 60) if found else ""
