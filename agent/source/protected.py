"""Files that affect a check without being tests, recognised by path alone: settings, CI files, files run at start-up.

Globs match the whole path, its end from some folder on, or a file's name; case does not matter. The guard uses them, and so
does the watch over the steps before a check (`agent/guest/supervise/decisive_files.py`).
"""

from __future__ import annotations

from agent.source.test_files import GLOBS

TEST_SETTINGS = (
    "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "noxfile.py", ".coveragerc", "toxfile.py", "tox.toml",
    "jest.config.*", "vitest.config.*", "karma.conf.*", ".mocharc*", "playwright.config.*", "cypress.config.*", "phpunit.xml*",
    "vitest.workspace.*", "vite.config.*", "mocha.opts", "ava.config.*", ".taprc", ".c8rc*", "wtr.config.*",
    "nextest.toml", "testng*.xml", "junit-platform.properties", "surefire*.xml", ".rspec", ".nycrc*",
    "codecov.y*ml", ".codecov.y*ml",
)  # fmt: skip
CI_FILES = (
    ".github/*", ".circleci/*", ".buildkite/*", ".gitlab-ci.yml", ".gitlab/*", ".travis.yml", "azure-pipelines.y*ml",
    "Jenkinsfile", "appveyor.yml", ".pre-commit-config.yaml", "Makefile", "GNUmakefile", "justfile", ".justfile", "Dockerfile",
    ".drone.yml", "Taskfile*.y*ml",
)  # fmt: skip
LINT_SETTINGS = (
    ".flake8", ".pylintrc", "pylintrc", "mypy.ini", ".mypy.ini", "ruff.toml", ".ruff.toml", "pyrightconfig.json", ".isort.cfg",
    ".editorconfig", ".bandit", ".style.yapf", ".eslintrc*", "eslint.config.*", ".eslintignore", ".prettierrc*",
    ".prettierignore", "prettier.config.*", "biome.json*", "tsconfig*.json", ".stylelintrc*", ".golangci.*", "clippy.toml",
    "rustfmt.toml", ".rustfmt.toml", ".rubocop*.yml", "babel.config.*", ".babelrc*", ".swcrc", "checkstyle*.xml",
    "spotbugs*.xml", "detekt.y*ml",
)  # fmt: skip
# Settings of builds and installs: sources, versions, dependencies. Tools write some of these files.
BUILD_SETTINGS = (
    ".npmrc", ".yarnrc*", ".yarn/*", ".pnpmfile.cjs", "pnpm-workspace.yaml", ".nvmrc", ".node-version", ".cargo/*",
    "rust-toolchain*", "build.rs", "hatch.toml", "hatch_build.py", "go.work", "*.gradle", "*.gradle.kts",
    "gradle.properties", "gradle/*", "gradlew*", "mvnw*", ".mvn/*",
)  # fmt: skip
LOCKS = (
    "*.lock", "*.lockb", "*.lockfile", "*.lock.json", "*.lock.hcl", "*-lock.json", "*-lock.y*ml", "pylock*.toml",
    "npm-shrinkwrap.json", "go.sum", "node_modules/*", "vendor/modules.txt",
)  # fmt: skip
# Files that tell people, other programs and their agents what to do with the repository: only people write them. They decide
# no check. Most such files are hidden, and the guard refuses all hidden files. Code is never one of these, whatever its name.
INSTRUCTIONS = (
    "AGENT.md", "AGENTS*.md", "CLAUDE*.md", "GEMINI*.md", "COPILOT*.md", "*.instructions.md", "*.prompt.md", "SKILL.md",
    "llms*.txt", "CODEOWNERS", "CONTRIBUTING*", "SECURITY.md", "selfheal.y*ml", "action.y*ml", "Jenkinsfile*", "*.jenkinsfile",
    "Dockerfile*", "*.dockerfile", "Containerfile*", "*compose*.y*ml", "bitbucket-pipelines*.y*ml", "azure-pipelines*.y*ml",
    "appveyor*.y*ml", "cloudbuild*.y*ml", "buildspec*.y*ml", "codefresh*.y*ml", "wercker.y*ml", "skaffold*.y*ml", "Earthfile",
    "Vagrantfile", "Procfile", "Makefile*", "GNUmakefile*", "*.mk", "fly*.toml", "netlify.toml", "vercel.json", "render.y*ml",
    "readthedocs.y*ml", "renovate.json*", "bors.toml", "lefthook*.y*ml", "mise*.toml", "*.tf", "release-please-config.json",
    "turbo.json", "nx.json", "lerna.json", "BUILD.bazel", "WORKSPACE*", "MODULE.bazel", "build.sbt", "nuget.config",
    "Directory.Build.*",
)  # fmt: skip
START_UP = ("*.pth", "sitecustomize.py", "usercustomize.py", "*.egg-link", "*.dist-info/*", "*.egg-info/*", ".git/*", ".git")
# Only some keys in them affect a check. The guard judges by key; no step before a check needs to write these files.
_MANIFESTS = (
    "pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "pipfile", "package.json", "cargo.toml", "go.mod", "pom.xml",
)  # fmt: skip
# Files that replace the test runner, and plugins that an installed package names.
_STAND_INS = (
    "pytest.py", "pytest/*", "_pytest/*", "pluggy/*", "unittest.py", "unittest/*", "coverage.py", "*.pth",
    "sitecustomize.py", "usercustomize.py", "*.egg-link", "*.dist-info/entry_points.txt", "*.egg-info/entry_points.txt",
)  # fmt: skip
# Without locks and installed packages' metadata: these follow from requirements, which a repair is allowed to change.
DECIDING = (
    *GLOBS, *TEST_SETTINGS, *CI_FILES, *LINT_SETTINGS, *BUILD_SETTINGS, *_MANIFESTS, *_STAND_INS, "*.sh", "*.bash", "*.mk",
)  # fmt: skip
