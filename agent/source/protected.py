"""Which files decide about a check without being a test, told by their path alone: settings, CI files, what starts before all.

Globs match the whole path, from some folder on, or a file's name; case does not matter. What follows from it is the guard's
business, and that of who watches the steps before a check (`agent/guest/supervise/decisive_files.py`).
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
    "Jenkinsfile", "appveyor.yml", ".pre-commit-config.yaml", "Makefile", "GNUmakefile", "justfile", "Dockerfile", ".drone.yml",
)  # fmt: skip
LINT_SETTINGS = (
    ".flake8", ".pylintrc", "pylintrc", "mypy.ini", ".mypy.ini", "ruff.toml", ".ruff.toml", "pyrightconfig.json", ".isort.cfg",
    ".editorconfig", ".bandit", ".style.yapf", ".eslintrc*", "eslint.config.*", ".eslintignore", ".prettierrc*",
    ".prettierignore", "prettier.config.*", "biome.json*", "tsconfig*.json", ".stylelintrc*", ".golangci.*", "clippy.toml",
    "rustfmt.toml", ".rustfmt.toml", ".rubocop*.yml", "babel.config.*", ".babelrc*", ".swcrc", "checkstyle*.xml",
    "spotbugs*.xml", "detekt.y*ml",
)  # fmt: skip
# What builds and installs: from where, with which version, from what. Their tools write some of them.
BUILD_SETTINGS = (
    ".npmrc", ".yarnrc*", ".yarn/*", ".pnpmfile.cjs", "pnpm-workspace.yaml", ".nvmrc", ".node-version", ".cargo/*",
    "rust-toolchain*", "build.rs", "go.work", "*.gradle", "*.gradle.kts", "gradle.properties", "gradle/*",
    "gradlew*", "mvnw*", ".mvn/*",
)  # fmt: skip
LOCKS = (
    "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock*", "cargo.lock", "go.sum",
    "gradle.lockfile", "node_modules/*", "vendor/modules.txt",
)  # fmt: skip
START_UP = ("*.pth", "sitecustomize.py", "usercustomize.py", "*.egg-link", "*.dist-info/*", "*.egg-info/*", ".git/*", ".git")
# Of them all some keys decide. The guard judges by key; nothing before a check has to write any of it.
_MANIFESTS = (
    "pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "pipfile", "package.json", "cargo.toml", "go.mod", "pom.xml",
)  # fmt: skip
# In the place of what runs the tests; and plugins, which an installed package names.
_STAND_INS = (
    "pytest.py", "pytest/*", "_pytest/*", "pluggy/*", "unittest.py", "unittest/*", "coverage.py", "*.pth",
    "sitecustomize.py", "usercustomize.py", "*.egg-link", "*.dist-info/entry_points.txt", "*.egg-info/entry_points.txt",
)  # fmt: skip
# Not the locks, and of what is installed not its description: they follow from requirements, which a repair may change.
DECIDING = (
    *GLOBS, *TEST_SETTINGS, *CI_FILES, *LINT_SETTINGS, *BUILD_SETTINGS, *_MANIFESTS, *_STAND_INS, "*.sh", "*.bash", "*.mk",
)  # fmt: skip
