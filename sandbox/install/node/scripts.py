"""Shell scripts for npm inside the sandbox: create a tree, compare it with its lock, copy it into a folder."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sandbox.host.tree import INSTALLED

OPTIONS = (
    "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error", "--include=dev",
    "--git=/bin/false",
)  # fmt: skip
_MARK = "selfheal made: "
# npm succeeds even if an optional package could not be fetched. A missing package is accepted if it is not for this platform or
# belongs to a set of such packages, which npm leaves out as a whole.
_WHOLE = """
const fs = require("fs"), [mark, strict, dated, absent] = process.argv.slice(1);
let packages = {};
try { packages = JSON.parse(fs.readFileSync("package-lock.json", "utf8")).packages || {}; } catch (_) {}
try { packages = JSON.parse(fs.readFileSync("npm-shrinkwrap.json", "utf8")).packages || {}; } catch (_) {}
const libc = () => process.report.getReport().header.glibcVersionRuntime ? "glibc" : "musl";
function suits(wanted, mine) {
  const names = [].concat(wanted === undefined ? [] : wanted).map(String);
  const yes = names.filter((name) => name[0] !== "!");
  return !names.includes("!" + mine) && (!yes.length || yes.includes(mine) || yes.includes("any"));
}
const fits = (one) => suits(one.os, process.platform) && suits(one.cpu, process.arch) && (!one.libc || suits(one.libc, libc()));
const name = (path) => path.split("node_modules/").pop();
const missing = Object.entries(packages).filter(([path, one]) =>
  path.split("/").includes("node_modules") && !one.link && !one.extraneous && !fs.existsSync(path + "/package.json"));
const excused = new Set(missing.filter(([, one]) => one.optional && !fits(one)).map(([path]) => path));
const needs = ([, one]) => Object.keys({...one.dependencies, ...one.optionalDependencies});
for (let before = -1; before !== excused.size;) {
  before = excused.size;
  const names = new Set([...excused].map(name));
  const needed = new Set(missing.filter(([path]) => excused.has(path)).flatMap(needs));
  for (const one of missing) {
    const related = needs(one).some((other) => names.has(other)) || needed.has(name(one[0]));
    if (one[1].optional && related) excused.add(one[0]);
  }
}
const left = missing.map(([path]) => path).filter((path) => !excused.has(path));
console.log("\\n" + mark + JSON.stringify([strict === "yes", left.length, left.slice(0, 5).map(name), dated, absent]));
"""
# The registry has Node's programs as packages. npm's scripts find the one in `.bin` before any other.
_OTHER_NODE = """
    case $(uname -m) in x86_64) arch=x64 ;; *) arch=arm64 ;; esac
    npm install "$@" --no-save --prefix "$cache/node" "node-linux-$arch@$WANTED_NODE" &&
        mkdir -p node_modules/.bin && mv "$cache/node/node_modules/node-linux-$arch/bin/node" node_modules/.bin/node &&
        node_modules/.bin/node --version || { rm -f node_modules/.bin/node; absent=$WANTED_NODE; }
"""
# `npm ci` refuses a lock that does not match its manifest. So would CI, unless its module cache hides the mismatch.
MAKE = f"""
cp -R "$1/project/." "$2/" && cd "$2" || exit 1
locked=$3 ended=; shift 3
cache=$(mktemp -d)
set -- "$@" --cache "$cache" --userconfig "$cache/none" --globalconfig "$cache/nothing"
strict=yes dated=
case "$locked" in
locked) npm ci "$@" --no-save && ended=0 || strict=no ;;
free) ;;
*) npm install "$@" --save --before="$locked" && ended=0 dated="$locked" || dated=no ;;
esac
[ "$ended" = 0 ] || {{ npm install "$@" --save; ended=$?; }}
absent=
if [ "$ended" = 0 ] && [ -n "$WANTED_NODE" ] && [ ! -e node_modules/.bin/node ]; then {_OTHER_NODE} fi
rm -rf "$cache"
[ "$ended" = 0 ] && node -e '{_WHOLE}' "{_MARK}" "$strict" "$dated" "$absent"
"""
COPY = """
to=$(cd "$2" && pwd) && cd "$1" || exit 1
find . -name node_modules -type d -prune | while read -r one; do
    rm -rf "$to/$one" && mkdir -p "$to/${one%node_modules}" && cp -a --reflink=auto "$one" "$to/$one" || exit 1
    : >"$to/$one/@INSTALLED@" || exit 1
done
""".replace("@INSTALLED@", INSTALLED)
# `MAKE` and `COPY` in one command, for backends without shared environments.
ALONE = f"""
asked=$1 folder=$2 locked=$3; shift 3
here=$(pwd) made=$(mktemp -d) || exit 1
(set -- "$asked" "$made" "$locked" "$@"
{MAKE}) && (cd "$here" && set -- "$made" "$folder"
{COPY})
ended=$?
rm -rf "$made"
exit $ended
"""


@dataclass(frozen=True, slots=True)
class NpmResult:
    """What `MAKE` reports: whether the tree matches the lock exactly, and what is missing."""

    strict: bool = False
    missing: int = 0
    names: tuple[str, ...] = ()
    dated: str = ""  # without a lock: the day after which no version was taken; "no" if that was impossible

    absent: str = ""  # the version of Node.js that the registry does not have for this machine

    @property
    def is_complete(self) -> bool:
        return self.strict and not self.missing and self.dated != "no" and not self.absent

    @property
    def notes(self) -> tuple[str, ...]:
        """For people: how the tree differs from the request."""
        notes = []
        if self.dated == "no":
            notes.append("there is no lock file, and versions from before the commit do not fit, so npm installed today's")
        elif self.dated:
            notes.append(f"there is no lock file, so npm installed the versions from before {self.dated}")
        if self.absent:
            notes.append(f"Node.js {self.absent} is not in npm's registry for this machine, so the sandbox's own is used")
        if not self.strict:
            notes.append("`npm ci` refused the lock file, so `npm install` was used, which may install other versions")
        if self.missing:
            named = ", ".join(self.names) + (", …" if self.missing > len(self.names) else "")
            notes.append(f"npm left out {self.missing} optional packages for this platform: {named}")
        return tuple(notes)


def parse_result(output: str) -> NpmResult:
    """The report in the output of `MAKE` or `ALONE`. Without a report, the tree counts as incomplete."""
    for line in reversed(output.splitlines()):
        if line.startswith(_MARK):
            strict, missing, names, dated, absent = json.loads(line.removeprefix(_MARK))
            names = tuple(str(name)[:100] for name in names)
            return NpmResult(strict, missing, names, str(dated)[:20], str(absent)[:20])
    return NpmResult()
