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

_DAEMON = r"(?:toomanyrequests|pull rate limit|Client\.Timeout exceeded|(?:TLS handshake|i/o) timeout|50[0-4] |429 Too Many)"


def _signs(text: str) -> re.Pattern[str]:
    """One regular expression that matches any of the line beginnings in `text`, which lists one per line."""
    return re.compile("|".join(text.strip("\n").split("\n")).replace("DAEMON", _DAEMON))


# Errors that the runner itself marks at the end of a job.
_OUT_OF_TIME = re.compile(
    r"The (?:job running on runner .{1,200}|action .{1,300}) has (?:exceeded the maximum execution time|timed out)"
)
_RUNNER = _signs(r"""
The runner has received a shutdown signal
The (?:hosted |self-hosted )?runner\b.{0,200}lost communication with the server
The job was (?:not (?:acquired by|started)|cancell?ed because of an internal)|No runner
(?:System\.IO\.IOException: )?No space left on device
(?i:Unable to resolve action .{1,200}, (?:the )?(?:connection|request)|Failed to (?:download|resolve) action)
Response status code does not indicate success: (?:5\d\d|429)
(?:fatal: )?unable to access '.{1,300}': The requested URL returned error: (?:5\d\d|429)
(?:fatal: )?unable to access '.{1,300}': (?:Could not resolve host|Failed to connect|Operation timed out)
(?:HttpError: )?(?:API rate limit exceeded|You have exceeded a secondary rate limit)
Docker pull failed with exit code|Docker login .{0,80}failed
(?:Error: )?(?:getaddrinfo (?:EAI_AGAIN|ENOTFOUND)|connect (?:ETIMEDOUT|ECONNREFUSED|ECONNRESET)|read ECONNRESET|socket hang up)
(?:Unexpected HTTP response:|Cache service responded with) (?:5\d\d|429)|Failed to (?:FinalizeArtifact|CreateArtifact)\b
""")
_MEMORY = _signs(r"""
FATAL ERROR: .{0,200}JavaScript heap out of memory
\S*(?:\+\+|cc|gcc|clang)\S*: (?:fatal )?error: Killed signal terminated program
(?:\S{0,200}: line \d+:|\S*sh: (?:\d+:)?)? *\d* *Killed\b
(?:Exception in thread .{0,200})?java\.lang\.OutOfMemoryError
(?:fatal error: )?runtime: out of memory|memory allocation of \d+ bytes failed
Out of memory: Killed process|.{0,200}oom-kill
error: could not compile .{1,200}\(signal: 9, SIGKILL: kill\)
terminate called after throwing an instance of 'std::bad_alloc'
""")
_TIME = re.compile(r"panic: test timed out after |Sent SIG(?:TERM|KILL) .{0,100}time ?limit")
# Messages of clients when a service, the network or the disk fails.
_TABLE = _signs(r"""
ERROR: (?:HTTP error (?:5\d\d|429) while getting|Could not install requirement .{1,400} because of HTTP error (?:5\d\d|429))
ERROR: Could not install packages due to an OSError: (?:HTTPS?ConnectionPool|\[Errno 28\]|\('Connection)
(?:pip\._vendor\.)?(?:requests|urllib3)\.exceptions\.(?:ReadTimeoutError|ConnectionError|ProtocolError|ChunkedEncodingError)
(?:pip\._vendor\.)?(?:requests|urllib3)\.exceptions\.HTTPError: (?:5\d\d|429)
(?:  |│ |├─▶ |╰─▶ |[Cc]ause(?:d by)?: )*(?:error: )?HTTP status (?:server error \(5\d\d|client error \(429)
(?:  |│ |├─▶ |╰─▶ |[Cc]ause(?:d by)?: )*(?:error: )?(?:[Ff]ailed to lookup address information|dns error)
npm (?:error|ERR!) (?:code )?(?:E5\d\d|E429|EAI_AGAIN|ECONNRE(?:SET|FUSED)|ETIMEDOUT|ENOTFOUND|ERR_SOCKET_TIMEOUT|ENOSPC)\b
error .{0,100}(?:Request failed "(?:5\d\d|429)|getaddrinfo (?:EAI_AGAIN|ENOTFOUND)|network connection)
curl: \((?:5|6|7|28|35|52|56)\) |curl: \(22\) .{0,100}(?:error: |: )(?:5\d\d|429)\b
(?:fatal|error|remote): .{0,300}(?:Could not resolve host|The requested URL returned error: (?:5\d\d|429))
(?:fatal|error|remote): .{0,300}(?:Connection timed out|early EOF|RPC failed; HTTP 5\d\d)
ssh: (?:Could not resolve hostname|connect to host .{1,200} (?:Connection timed out|Connection refused))
wget: unable to resolve host|(?:HTTP request sent, awaiting response\.\.\. |.{0,40}ERROR )(?:5\d\d|429)\b
E: Failed to fetch .{1,400}(?:5\d\d  |Could not (?:resolve|connect)|Temporary failure|Connection (?:failed|timed out))
(?:docker: )?Error response from daemon\b.{0,300}DAEMON
(?:ERROR: failed to (?:solve|copy)|failed to solve|.{0,80} Error)\b.{0,300}DAEMON
toomanyrequests: |You have reached your pull rate limit
(?:.{0,200}: )?(?:write error: )?No space left on device$
(?:OSError|IOError): \[Errno 28\]|.{0,80}ENOSPC: no space left on device
\[ERROR\] .{0,400}Could not transfer artifact .{1,300}status code: (?:5\d\d|429)
\[ERROR\] .{0,400}Could not transfer artifact .{1,300}(?:Connect(?:ion)? timed out|Unknown host|Connection reset)
(?:error: )?failed to (?:download|fetch|get) .{1,300}(?:5\d\d|timed out|Could not resolve host)
  (?:\[\d+\] )?(?:Could not resolve host|Timeout was reached|SSL connect error)
go: .{1,300}(?:dial tcp: lookup .{1,200}: |i/o timeout|TLS handshake timeout)
go: .{1,300}50[0-4] (?:Bad Gateway|Service Unavailable|Internal Server Error|Gateway Timeout)
(?:Failed to (?:CreateArtifact|GetSignedArtifactURL)|Unable to download artifact)\b.{0,300}(?:5\d\d|ECONNRESET|timed? ?out)
""")
# Trouble that a client reports but that does not end a step by itself.
_TROUBLE = _signs(r"""
WARNING: Retrying \(Retry\(total=\d+.{0,200} after connection broken by[ ]
npm (?:warn|WARN) .{0,200}(?:ECONNRESET|ETIMEDOUT|EAI_AGAIN|network)
WARNING: .{0,200}HTTP error (?:5\d\d|429)
""")

NETWORK = "the network"
# A request that cannot leave the sandbox, in the words of clients and languages; anywhere in a line.
_NO_NETWORK = re.compile(
    r"EAI_AGAIN|ENOTFOUND|ENETUNREACH|getaddrinfo|(?i:could not resolve (?:host|proxy)|name resolution)"
    r"|(?i:name or service not known|network is unreachable|failed to (?:establish a new connection|lookup address))"
    r"|(?i:no such host|dns error|no route to host)|\(from versions: none\)"  # the last one is pip's
)
_NO_PROGRAM = re.compile(r"(?i)command not found|: not found$|executable file not found|No such file or directory: '[\w.+-]+'$")
# A program that could not be started, in the words of shells and make.
_ABSENT = re.compile(
    r"(?:(?:/\S+/)?(?:ba|da|z)?sh: (?:(?:line )?\d+: )?|\S+: line \d+: |make(?:\[\d+\])?: )"
    r"(?P<program>[\w.+-]+): (?:command not found|not found|No such file or directory)$"
    r"|\".{1,300}\" cannot be started: \[Errno 2\] No such file or directory: '(?P<shell>[\w.+-]+)'$"  # the supervisor's
)
# How tox and nox say that the Python of an environment is not there.
_NO_PYTHON = re.compile(
    r"could not find python interpreter matching any of the specs (?P<tox>[\w.+-]+)|InterpreterNotFound: (?P<older>[\w.+-]+)$"
    r"|Python interpreter (?P<nox>[\w.+-]+) not found"
)
_FAILED_IN = re.compile(r"(?P<name>\S+): FAIL\b")  # an environment of tox
_ENDED_SO = re.compile(r"make(?:\[\d+\])?: \*\*\* .{1,200} Error 127$")
_NO_FILE = re.compile(r"(?i)no such file or directory|ENOENT|does not exist|cannot (?:open|stat|access|find)\b|not found")


def lacks_a_file(lines: Sequence[str]) -> bool:
    """Whether the output says that a file is missing."""
    return any(map(_NO_FILE.search, lines[-NEAR:]))


def absent_program(lines: Sequence[str], exit_code: int | None) -> str:
    """The program that could not be started, which ended a step; "" if the output names none."""
    near = [line.strip() for line in lines[-NEAR:]]
    if python := _absent_python(near):
        return python
    if exit_code != 127 and not any(map(_ENDED_SO.match, near[-5:])):
        return ""
    return next(
        (found["program"] or found["shell"] for line in reversed(near) if (found := _ABSENT.match(line)) is not None), ""
    )


def _absent_python(lines: Sequence[str]) -> str:
    """The Python that tox or nox did not find; "" if they only skipped it, or if another environment failed."""
    said = [line for line in lines if "skip" not in line.casefold()]
    found = [(line, match) for line in said if (match := _NO_PYTHON.search(line)) is not None]
    failed = {match["name"] for line in said if (match := _FAILED_IN.match(line)) is not None}
    if not found or failed - {line.partition(":")[0] for line, _ in found}:
        return ""
    match = found[-1][1]
    return match["tox"] or match["older"] or f"python{match['nox']}"


def by_sandbox(lines: Sequence[str], exit_code: int | None) -> str:
    """What a set-up step lacks here that a runner has, for people; "" if its output shows nothing of the kind."""
    near = lines[-NEAR:]
    if any(map(_NO_NETWORK.search, near)):
        return NETWORK
    if program := absent_program(lines, exit_code):
        return f"the program {program}"
    if exit_code == 127 or any(_NO_PROGRAM.search(line.strip()) for line in near[-3:]):
        return "a program that is not installed here"
    return ""


def by_runner(errors: Iterable[str]) -> tuple[Cause, str] | None:
    """The cause that the runner's own errors give."""
    for line in errors:
        if _OUT_OF_TIME.match(line):
            return Cause.TIMEOUT, line
        if _RUNNER.match(line):
            return Cause.INFRASTRUCTURE, line
    return None


def by_limits(lines: Sequence[str], exit_code: int | None) -> Cause | None:
    """A process killed for its memory or time."""
    near = lines[-NEAR:]
    if any(map(_MEMORY.match, near)):
        return Cause.OUT_OF_MEMORY
    if any(map(_TIME.match, near)):
        return Cause.TIMEOUT
    return None if exit_code is None else _EXITS.get(exit_code)


def by_table(lines: Sequence[str]) -> str | None:
    """The line near the step's end in which a client reports that the network, a service or the disk failed."""
    return next((line.strip() for line in reversed(lines[-NEAR:]) if _TABLE.match(line)), None)


def by_trouble(lines: Sequence[str]) -> str | None:
    """Network trouble that explains why something could not be found."""
    return next((line for line in reversed(lines[-NEAR:]) if _TROUBLE.match(line)), None)
