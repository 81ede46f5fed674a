"""Signs that the machine ended a job, not the repository: time limits, memory, and the infrastructure table.

A sign is a message of a known client, or of GitHub's runner, at the start of a line. "503" or "connection refused" elsewhere
means nothing, as tests print such words too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from agent.ci.logs.model import Cause

NEAR = 250  # lines from the end of a step that are searched
_EXITS = {124: Cause.TIMEOUT, 137: Cause.OUT_OF_MEMORY, 143: Cause.TIMEOUT}

# Errors that the runner itself marks at the end of a job.
_RUNNER: tuple[tuple[Cause, re.Pattern[str]], ...] = (
    (Cause.TIMEOUT, re.compile(
        r"^The (?:job running on runner .{1,200}|action .{1,300}) has (?:exceeded the maximum execution time|"
        r"timed out)"
    )),
    (Cause.INFRASTRUCTURE, re.compile(r"^The runner has received a shutdown signal")),
    (Cause.INFRASTRUCTURE, re.compile(r"^The (?:hosted |self-hosted )?runner\b.{0,200}lost communication with the server")),
    (Cause.INFRASTRUCTURE, re.compile(
        r"^(?:The job was not (?:acquired by|started)|No runner|The job was cancell?ed because of an internal)"
    )),
    (Cause.INFRASTRUCTURE, re.compile(r"^(?:System\.IO\.IOException: )?No space left on device")),
    (Cause.INFRASTRUCTURE, re.compile(
        r"^(?:Unable to resolve action .{1,200}, (?:the )?(?:connection|request)|Failed to (?:download|"
        r"resolve) action)"
    , re.IGNORECASE)),
    (Cause.INFRASTRUCTURE, re.compile(r"^Response status code does not indicate success: (?:5\d\d|429)")),
    (Cause.INFRASTRUCTURE, re.compile(
        r"^(?:fatal: )?unable to access '.{1,300}': (?:The requested URL returned error: (?:5\d\d|429)|"
        r"Could not resolve host|Failed to connect|Operation timed out)"
    )),
    (Cause.INFRASTRUCTURE, re.compile(
        r"^(?:HttpError: )?(?:API rate limit exceeded|You have exceeded a secondary rate limit)"
    )),
    (Cause.INFRASTRUCTURE, re.compile(r"^Docker pull failed with exit code|^Docker login .{0,80}failed")),
    (Cause.INFRASTRUCTURE, re.compile(
        r"^(?:Error: )?(?:getaddrinfo (?:EAI_AGAIN|ENOTFOUND)|connect (?:ETIMEDOUT|ECONNREFUSED|ECONNRESET)|"
        r"read ECONNRESET|socket hang up)"
    )),
    (Cause.INFRASTRUCTURE, re.compile(
        r"^(?:Unexpected HTTP response: (?:5\d\d|429)|Cache service responded with (?:5\d\d|429)|"
        r"Failed to (?:FinalizeArtifact|CreateArtifact)\b)"
    )),
)  # fmt: skip

_MEMORY: tuple[re.Pattern[str], ...] = (
    re.compile(r"^(?:FATAL ERROR: .{0,200})JavaScript heap out of memory"),
    re.compile(r"^\S*(?:\+\+|cc|gcc|clang)\S*: (?:fatal )?error: Killed signal terminated program"),
    re.compile(r"^(?:\S{0,200}: line \d+:|\S*sh: (?:\d+:)?)? *\d* *Killed\b"),
    re.compile(r"^(?:Exception in thread .{0,200})?java\.lang\.OutOfMemoryError"),
    re.compile(r"^(?:fatal error: runtime: out of memory|runtime: out of memory|memory allocation of \d+ bytes failed)"),
    re.compile(r"^(?:Out of memory: Killed process|.{0,200}oom-kill)"),
    re.compile(r"^error: could not compile .{1,200}\(signal: 9, SIGKILL: kill\)"),
    re.compile(r"^terminate called after throwing an instance of 'std::bad_alloc'"),
)  # fmt: skip

# Messages of clients when a service, the network or the disk fails.
_TABLE: tuple[re.Pattern[str], ...] = (
    re.compile(
        r"^ERROR: (?:HTTP error (?:5\d\d|429) while getting|"
        r"Could not install requirement .{1,400} because of HTTP error (?:5\d\d|429)|"
        r"Could not install packages due to an OSError: (?:HTTPS?ConnectionPool|\[Errno 28\]|\('Connection))"
    ),
    re.compile(
        r"^(?:pip\._vendor\.)?(?:requests|urllib3)\.exceptions\.(?:ReadTimeoutError|ConnectionError|ProtocolError|"
        r"ChunkedEncodingError|HTTPError: (?:5\d\d|429))"
    ),
    re.compile(
        r"^(?:  |│ |├─▶ |╰─▶ |[Cc]ause(?:d by)?: )*(?:error: )?(?:HTTP status (?:server error \(5\d\d|client error \(429)|"
        r"[Ff]ailed to lookup address information|dns error)"
    ),
    re.compile(
        r"^npm (?:error|ERR!) (?:code )?(?:E5\d\d|E429|EAI_AGAIN|ECONNRESET|ECONNREFUSED|ETIMEDOUT|ENOTFOUND|"
        r"ERR_SOCKET_TIMEOUT|ENOSPC)\b"
    ),
    re.compile(r"^error .{0,100}(?:Request failed \"(?:5\d\d|429)|getaddrinfo (?:EAI_AGAIN|ENOTFOUND)|network connection)"),
    re.compile(r"^curl: \((?:5|6|7|28|35|52|56)\) |^curl: \(22\) .{0,100}(?:error: |: )(?:5\d\d|429)\b"),
    re.compile(
        r"^(?:fatal|error|remote): .{0,300}(?:Could not resolve host|The requested URL returned error: (?:5\d\d|"
        r"429)|Connection timed out|early EOF|RPC failed; HTTP 5\d\d)"
    ),
    re.compile(r"^ssh: (?:Could not resolve hostname|connect to host .{1,200} (?:Connection timed out|Connection refused))"),
    re.compile(r"^wget: unable to resolve host|^(?:HTTP request sent, awaiting response\.\.\. |.{0,40}ERROR )(?:5\d\d|429)\b"),
    re.compile(
        r"^E: Failed to fetch .{1,400}(?:5\d\d  |Could not (?:resolve|connect)|Temporary failure|"
        r"Connection (?:failed|timed out))"
    ),
    re.compile(
        r"^(?:Error response from daemon|ERROR: failed to (?:solve|copy)|failed to solve|"
        r"docker: Error response from daemon|.{0,80} Error)\b.{0,300}(?:toomanyrequests|pull rate limit|"
        r"Client\.Timeout exceeded|TLS handshake timeout|i/o timeout|50[0-4] |429 Too Many)"
    ),
    re.compile(r"^(?:toomanyrequests: |You have reached your pull rate limit)"),
    re.compile(
        r"^(?:.{0,200}: )?(?:write error: )?No space left on device$|^(?:OSError|IOError): \[Errno 28\]|"
        r"^.{0,80}ENOSPC: no space left on device"
    ),
    re.compile(
        r"^\[ERROR\] .{0,400}Could not transfer artifact .{1,300}(?:status code: (?:5\d\d|429)|"
        r"Connect(?:ion)? timed out|Unknown host|Connection reset)"
    ),
    re.compile(
        r"^(?:error: )?failed to (?:download|fetch|get) .{1,300}(?:5\d\d|timed out|Could not resolve host)|"
        r"^  (?:\[\d+\] )?(?:Could not resolve host|Timeout was reached|SSL connect error)"
    ),
    re.compile(
        r"^go: .{1,300}(?:dial tcp: lookup .{1,200}: |i/o timeout|50[0-4] (?:Bad Gateway|Service Unavailable|"
        r"Internal Server Error|Gateway Timeout)|TLS handshake timeout)"
    ),
    re.compile(
        r"^(?:Failed to CreateArtifact|Failed to GetSignedArtifactURL|"
        r"Unable to download artifact)\b.{0,300}(?:5\d\d|ECONNRESET|timed? ?out)"
    ),
)  # fmt: skip

# Trouble that a client reports and that alone ends nothing.
_TROUBLE: tuple[re.Pattern[str], ...] = (
    re.compile(r"^WARNING: Retrying \(Retry\(total=\d+.{0,200} after connection broken by "),
    re.compile(r"^(?:npm warn|npm WARN) .{0,200}(?:ECONNRESET|ETIMEDOUT|EAI_AGAIN|network)"),
    re.compile(r"^WARNING: .{0,200}HTTP error (?:5\d\d|429)"),
)


def by_runner(errors: Iterable[str]) -> tuple[Cause, str] | None:
    """The cause that the runner's own errors give."""
    return next(((cause, line) for line in errors for cause, sign in _RUNNER if sign.match(line)), None)


def by_limits(lines: Sequence[str], exit_code: int | None) -> tuple[Cause, str] | None:
    """A process killed for its memory or time."""
    for line in reversed(lines[-NEAR:]):
        if any(sign.match(line) for sign in _MEMORY):
            return Cause.OUT_OF_MEMORY, line
    for line in reversed(lines[-NEAR:]):
        if line.startswith("panic: test timed out after ") or re.match(r"^Sent SIG(?:TERM|KILL) .{0,100}time ?limit", line):
            return Cause.TIMEOUT, line
    if exit_code in _EXITS:
        return _EXITS[exit_code], f"Process completed with exit code {exit_code}."
    return None


def by_table(lines: Sequence[str]) -> str | None:
    """The line near the step's end in which a client reports that the network, a service or the disk failed."""
    return next((line.strip() for line in reversed(lines[-NEAR:]) if any(sign.match(line) for sign in _TABLE)), None)


def by_trouble(lines: Sequence[str]) -> str | None:
    """Network trouble that explains why something could not be found."""
    return next((line for line in reversed(lines[-NEAR:]) if any(sign.match(line) for sign in _TROUBLE)), None)
