"""What is kept here is data, also where it looks like tests: the stand-in repositories fail on purpose."""

collect_ignore = ["replays"]
