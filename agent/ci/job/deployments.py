"""Recognizes a failing step that deploys, publishes, notifies or transfers: no repair of the code makes it pass. Pure.

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
    r"(?:sudo )?(?:npx |python3? -m |uvx? (?:run )?|poetry run )?"
    r"(twine upload|uv publish|poetry publish|flit publish|hatch publish|npm publish|yarn (?:npm )?publish|pnpm publish"
    r"|curl |wget |git (?:push|fetch|pull|clone) |gh |semantic-release|docker push|kubectl |helm upgrade|terraform apply"
    r"|pulumi up"
    r"|fly(?:ctl)? deploy|vercel (?:deploy|--prod)|netlify deploy|wrangler (?:deploy|publish)|firebase deploy|gcloud |aws |az "
    r"|heroku |eb deploy|cdk deploy|serverless deploy|mkdocs gh-deploy|mike deploy|rsync |scp |ssh )"
)
_HARMLESS = re.compile(r"(?:cd|echo|export|set|mkdir|source) ")
_BESIDE = re.compile(r"[;&|]|--dry-run|--snapshot")  # it does something else too, or does not deploy
_ACTION = re.compile(
    r"(?i)(pypa/gh-action-pypi-publish|actions/deploy-pages|actions/upload-pages-artifact|peaceiris/actions-gh-pages"
    r"|JamesIves/github-pages-deploy-action|softprops/action-gh-release|ncipollo/release-action|actions/create-release"
    r"|goreleaser/goreleaser-action|cycjimmy/semantic-release-action|changesets/action|googleapis/release-please-action"
    r"|docker/login-action|aws-actions/[\w-]+|google-github-actions/[\w-]+|azure/[\w-]+|superfly/[\w-]+|cloudflare/[\w-]+"
    r"|appleboy/(?:ssh|scp)-action|easingthemes/ssh-deploy"
    r"|actions/(?:labeler|stale|first-interaction|github-script|cache|(?:up|down)load-artifact|add-to-project)"
    r"|codecov/codecov-action|coverallsapp/github-action|slackapi/[\w-]+|8398a7/action-slack|rtCamp/action-slack-notify"
    r"|peter-evans/[\w-]+|release-drafter/release-drafter|stefanzweifel/git-auto-commit-action|marocchino/[\w-]+)@"
)


def deployment(job: FailedJob) -> str:
    """The command or action of a failing step that only deploys, publishes, notifies or transfers; "" for another one."""
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
    lines = [" ".join(line.split()) for line in (step.run or "").splitlines()]
    *before, last = [line for line in lines if line and not line.startswith("#")] or [""]
    # Any line of a script may be the one that failed.
    found = _COMMAND.match(last) if all(_HARMLESS.match(line) for line in before) and not _BESIDE.search(last) else None
    return one_line(found[1].strip(), 60) if found else ""
