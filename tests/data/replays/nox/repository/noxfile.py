import nox

nox.needs_version = ">=2022"
nox.options.sessions = ["lint"]
nox.options.reuse_existing_virtualenvs = True


@nox.session(python=["3.8", "3.9", "3.10", "3.11", "3.12", "pypy3.10"])
def tests(session):
    """Run the tests with what they need."""
    session.install("-e", ".[test]")
    session.env["SPECS_LEVEL"] = "release"
    session.run("python", "-m", "pytest", "-ra", "-k", "not slow", *session.posargs)


@nox.session(python="3.11")
def lint(session):
    session.install("ruff==0.6.9")
    session.run("ruff", "check", "src", *session.posargs)
