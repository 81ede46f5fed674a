"""Which tests run when: `make test` runs the quick tier, `.ci/run` the ci tier, `make test-all` all of them.

Long is what is marked so, what runs a second time, on PostgreSQL, outside of the rooms whose SQL it decides, and what programs
that others wrote judge (the fixture `judge`; npm installs them).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, get_args

import pytest

Name = Literal["quick", "ci", "all"]
NAMES: tuple[Name, ...] = get_args(Name)

TESTS = Path(__file__).parent
SLOW = ("story", "chaos", "deploy", "agent/nodes", "attacks", "sandbox/test_unprivileged.py")  # long; they are started first
ON_POSTGRESQL = ("app/store",)  # whose SQL it decides
# Not long, but each costs a second of processor time or several, and siblings that stay in the quick tier try the same code. So
# `make test` leaves them out; the other tiers run them.
COSTLY = (
    "agent/bench/test_lab.py::test_a_test_dependency_that_cannot_be_had_costs_only_its_tests",
    "agent/checks/test_services.py::test_a_step_before_finds_the_servers",
    "agent/checks/test_services.py::test_what_tests_make_a_server_do_knows_nothing_of_who_observes_them",
    "agent/ci/job/test_traversal.py::test_a_red_step_that_perhaps_does_not_run_in_ci_is_passed_over",
    "agent/ci/job/test_traversal.py::test_what_steps_leave_outside_of_the_repository_is_there_for_the_failing_one",
    "agent/edits/test_originals.py::test_a_prepared_task_has_the_readable_commits_without_patches",
    "agent/gate/test_fitting.py::test_breaks_of_a_program_do_not_make_repairs_of_peoples_bugs_surer",
    "agent/guest/observe/test_conditions.py::test_midnight_comes_in_the_zone_that_is_asked_for",
    "agent/guest/observe/test_conditions.py::test_seeds_make_chance_repeat_itself[pytest -q-pytest]",
    "agent/guest/observe/test_conditions.py::test_tests_run_in_the_order_that_is_asked_for[unittest]",
    "agent/guest/tamper/test_detector.py::test_what_a_hanging_test_did_is_reported[python -m unittest-unittest]",
    "agent/guest/test_challenge.py::test_a_result_that_equals_other_values_is_told",
    (
        "agent/guest/test_challenge.py::"
        "test_code_that_knows_that_it_is_tested_answers_differently_elsewhere['pyt' + 'est' in __import__('sys').modules-True]"
    ),
    (
        "agent/guest/test_challenge.py::"
        "test_code_that_knows_that_it_is_tested_answers_differently_elsewhere[__import__('sys').argv[0] != 'app'-True]"
    ),
    "agent/nodes/test_background.py::test_a_search_that_loses_its_sandbox_does_not_lose_the_models_answer",
    "agent/nodes/test_compare.py::test_a_failure_of_the_sandbox_is_not_reported_as_the_repositorys[True]",
    "agent/nodes/test_compare.py::test_a_patch_of_the_changed_lines_is_preferred_and_another_is_doubted[doubted]",
    "agent/nodes/test_compare.py::test_what_failed_before_stays_in_the_target_while_a_part_of_the_change_is_unknown",
    "agent/nodes/test_reflect.py::test_a_lesson_names_the_changed_function_and_a_path_only_once",
    "agent/nodes/test_review.py::test_a_rejection_is_a_lesson_and_the_next_change_is_tried",
    "agent/nodes/test_weigh.py::test_other_changes_that_pass_are_named_as_a_choice_unless_they_behave_the_same",
    "agent/prompts/test_excerpts.py::test_a_long_helper_between_test_and_code_is_a_signature",
    "agent/prompts/test_excerpts.py::test_cases_that_fail_alike_are_told_together_and_their_traceback_once",
    "agent/prompts/test_excerpts.py::test_lines_that_run_at_import_are_not_suspicious_beside_functions",
    "agent/prompts/test_excerpts.py::test_what_the_likely_code_calls_and_what_lessons_name_are_shown",
    "agent/prompts/test_excerpts.py::test_without_suspects_what_the_test_names_is_shown",
    "agent/proposers/patterns/test_pinning.py::test_a_change_of_several_files_or_of_another_language_is_not_tried[edits1]",
    "agent/proposers/patterns/test_proposer.py::test_coroutines_are_searched",
    "agent/proposers/patterns/test_proposer.py::test_plain_unittest_is_searched_too[beside a doctest]",
    "agent/proposers/tools/test_proposer.py::test_a_module_that_is_only_named_in_words_becomes_no_dependency",
    "agent/proposers/tools/test_proposer.py::test_a_red_linter_is_healed_by_the_graph_without_a_model",
    "agent/proposers/tools/test_proposer.py::test_what_a_test_alone_imports_is_named_beside_the_tools_of_tests",
    (
        "agent/reproduce/test_sandbox_limits.py::"
        "test_a_limit_ends_the_attempt_only_where_it_explains_all_and_ci_does_not_tell_it[files1-known1-None]"
    ),
    (
        "agent/reproduce/test_sandbox_limits.py::"
        "test_a_limit_ends_the_attempt_only_where_it_explains_all_and_ci_does_not_tell_it[files2-known2-None]"
    ),
    "agent/test_preparing.py::test_a_job_that_needs_a_browser_is_passed_over",
    "agent/test_preparing.py::test_after_half_of_the_time_nothing_more_is_left_out[0.0]",
    "app/attempt/test_author.py::test_a_repository_says_whether_the_author_is_told[sqlite-True]",
    "app/attempt/test_regression.py::test_the_last_good_commit_reaches_the_engine_and_what_broke_it_is_shown[sqlite]",
    "app/attempt/test_story.py::test_a_refusal_that_is_no_rule_blames_none[sqlite]",
    "app/attempt/test_story.py::test_a_repair_that_is_submitted_too_quickly_is_published_later[sqlite]",
    (
        "app/cli/bench/test_bench.py::"
        "test_wrong_use_is_one_line_and_ends_with_2[argv0-/no/such.jsonl cannot be read: No such file]"
    ),
    "app/cli/bench/test_bench.py::test_wrong_use_is_one_line_and_ends_with_2[argv11---without names the unknown rung 'magic']",
    (
        "app/cli/bench/test_bench.py::"
        "test_wrong_use_is_one_line_and_ends_with_2[argv15-/no/such is not a git checkout with commits]"
    ),
    (
        "app/cli/bench/test_bench.py::"
        "test_wrong_use_is_one_line_and_ends_with_2[argv17---without names the unknown rung 'magic'; there are tools,]"
    ),
    "app/cli/bench/test_bench.py::test_wrong_use_is_one_line_and_ends_with_2[argv5-is not a results file]",
    (
        "app/cli/checkout/test_extending.py::"
        "test_a_broken_extension_is_named_before_anything_is_healed[selfheal.nodes-body8-not be a built-in step's]"
    ),
    "app/service/test_solving.py::test_the_folders_of_a_killed_process_are_removed_at_the_next_start[sqlite]",
    "app/service/test_watchdog.py::test_a_loop_that_hangs_ends_the_process_and_says_where[asleep]",
    "sandbox/install/node/test_npm.py::test_the_code_finds_what_its_manifest_names[process]",
    "sandbox/install/node/test_npm.py::test_the_same_lock_is_downloaded_once_for_all_attempts",
    "sandbox/install/node/test_npm.py::test_without_a_lock_the_versions_are_those_of_a_day[*-1.0.0-before 2021-01-01]",
    "sandbox/install/python/test_managed.py::test_a_python_that_is_missing_is_downloaded_once_and_runs_the_code[process]",
    "sandbox/install/sources/test_crates.py::test_cargo_builds_with_them_without_a_network[False]",
    "sandbox/install/sources/test_crates.py::test_wheels_leave_less_for_the_crates_of_their_step[8388608]",
    "sandbox/install/test_packages.py::test_a_candidates_own_project_is_built_from_its_own_files[process]",
    "sandbox/install/test_packages.py::test_a_project_is_installed_editable_with_its_static_dependencies[process]",
    "sandbox/install/test_packages.py::test_attempts_that_need_the_same_share_one_environment_with_its_bytecode",
    "sandbox/install/test_packages.py::test_wheels_come_from_outside_once_and_then_from_the_cache[uv-process]",
    "sandbox/install/test_packages.py::test_where_no_overlay_can_be_had_the_shared_layer_is_copied",
    "sandbox/install/test_several_indexes.py::test_so_it_is_for_a_python_that_is_too_old_for_the_workers_pip[True]",
    "sandbox/install/test_several_indexes.py::test_what_is_built_inside_gets_the_first_indexs_project[uv-first-ours]",
    "sandbox/install/test_several_indexes.py::test_what_the_first_index_lacks_in_this_version_is_missing",
    "sandbox/proof/test_recipe.py::test_a_dropped_protection_is_named[the group]",
)
# The part of the long tests that `.ci/run` runs too. On PostgreSQL a second time: only files and tests, no folders.
IN_CI = (
    "agent/bench/test_functions.py::test_with_all_cases_shown_the_correct_program_decides",
    "agent/bench/test_history.py::test_a_fix_with_its_test_is_a_task_and_others_are_not",
    "agent/checks",
    "agent/ci",
    "agent/gate",
    "agent/models",
    "agent/nodes/test_background.py",
    "agent/nodes/test_challenge.py",
    "agent/nodes/test_climb.py",
    "agent/nodes/test_compare.py::test_a_budget_that_ran_out_is_not_hidden_by_what_broke_the_tests",
    "agent/nodes/test_compare.py::test_a_commit_that_cannot_be_laid_out_here_is_no_comparison",
    "agent/nodes/test_compare.py::test_a_reversal_is_proposed_if_the_policy_allows_it",
    "agent/nodes/test_compare.py::test_a_test_that_cannot_run_at_the_good_commit_is_not_new",
    "agent/nodes/test_compare.py::test_an_import_that_the_change_lost_was_not_taken_away_on_purpose",
    "agent/nodes/test_compare.py::test_the_commit_that_broke_it_is_found_among_older_ones",
    "agent/nodes/test_compare.py::test_two_failures_that_two_commits_caused_are_not_blamed_on_one",
    "agent/nodes/test_compare.py::test_what_cis_log_names_stays_in_the_target_whatever_it_says",
    "agent/nodes/test_reflect.py",
    "agent/nodes/test_reproduce.py",
    "agent/nodes/test_review.py",
    "agent/nodes/test_select.py",
    "agent/nodes/test_tournament.py",
    "agent/nodes/test_verify.py",
    "agent/nodes/test_weigh.py",
    "agent/proposers",
    "agent/solving/test_solve.py::test_a_blind_test_that_is_right_makes_the_code_be_repaired",
    "agent/solving/test_solve.py::test_a_budget_of_tokens_ends_the_run_with_the_call_that_reaches_it",
    "agent/solving/test_solve.py::test_a_package_of_several_files_is_written_and_each_is_shown_below_its_path",
    "agent/solving/test_solve.py::test_a_wrong_answer_is_healed_and_kept_beside_it",
    "agent/solving/test_solve.py::test_an_adversarial_test_finds_what_the_others_did_not",
    "agent/solving/test_solve.py::test_an_answer_that_a_rule_refuses_is_written_again_by_the_model_that_knows_why",
    "agent/solving/test_solve.py::test_instructions_in_a_specification_reach_the_model_only_as_data",
    "agent/solving/test_solve.py::test_lessons_of_one_run_are_remembered_in_the_next",
    "agent/solving/test_solve.py::test_the_signature_stays_as_it_is_stated",
    "agent/solving/test_solve.py::test_what_a_rule_refused_is_no_part_of_the_repaired_code",
    "agent/reproduce/test_flakiness.py::test_what_is_red_at_the_clock_of_the_run_is_reproduced",
    "agent/reproduce/test_flakiness.py::test_where_nothing_says_that_anything_was_red_few_more_runs_are_made",
    "agent/test_engine.py::test_a_job_of_a_container_is_seen_in_its_image_where_the_sandbox_has_images",
    "agent/test_forking.py",
    "agent/test_graph.py::test_a_change_that_cannot_be_told_from_luck_proves_nothing",
    "agent/test_graph.py::test_a_failure_that_comes_and_goes_is_flaky",
    "agent/test_graph.py::test_a_killed_repair_is_finished_by_another_process",
    "app/attempt",
    "app/cli/attempts/test_decisions.py::test_a_fork_with_a_hint_and_a_model_heals_what_the_search_could_not[sqlite]",
    "app/cli/bench/test_bench.py",
    "app/cli/bench/test_written.py",
    "app/cli/checkout/test_extending.py::test_the_example_proposes_and_has_a_say",
    "app/cli/checkout/test_fix.py",
    "app/cli/checkout/test_replays.py::test_a_failed_job_fails_here_as_it_did[tox/minimum]",
    "app/cli/solve",
    "app/cli/checkout/test_replays.py::test_a_person_sees_the_same_in_their_checkout[composite/unit]",
    "app/cli/checkout/test_reproduce_command.py",
    "app/dashboard/test_api.py::test_a_reader_who_takes_nothing_is_given_up[sqlite]",
    "app/publish",
    "app/service/test_needless.py::test_a_status_that_is_not_green_keeps_it_open",
    "app/service/test_outdated.py::test_killed_at_a_write_and_run_again_it_says_so_once",
    "app/service/test_solving.py",
    "app/service/test_watchdog.py",
    "app/service/test_web.py::test_a_web_process_that_stops_does_not_speak_of_work",
    "app/service/test_web.py::test_the_web_process_never_loads_what_heals",
    "app/store/database/test_database.py",
    "app/store/database/test_outlasting.py",
    "attacks/test_forgeries.py::test_what_the_guard_lets_pass_is_not_published[agree-js-private-fields]",
    "attacks/test_forgeries.py::test_what_the_guard_lets_pass_is_not_published[heart-js-plural]",
    "attacks/test_forgeries.py::test_what_the_guard_lets_pass_is_not_published[heart-summed-letters]",
    "attacks/test_forgeries.py::test_what_the_guard_lets_pass_is_not_published[judges-js-near-helper]",
    "attacks/test_forgeries.py::test_what_the_guard_lets_pass_is_not_published[judges-zip-helper]",
    "attacks/test_forgeries.py::test_what_the_guard_lets_pass_is_not_published[knows-warm-up-js]",
    "attacks/test_forgeries.py::test_what_the_guard_lets_pass_is_not_published[less-signature-prefix]",
    "attacks/test_forgeries.py::test_what_the_guard_lets_pass_is_not_published[swallowed-ledger-exitstack]",
    "deploy/test_image.py",
    "fuzz",
    "injection/test_obeying_model.py",
    "sandbox/contract",
    "sandbox/e2b",
    "sandbox/host",
    "sandbox/install",
    "sandbox/jail",
    "sandbox/proof/test_kinds.py",
    "sandbox/proof/test_prove.py",
    "sandbox/proof/test_recipe.py::test_the_whole_recipe_holds",
    "sandbox/test_local.py",
    "sandbox/test_unprivileged.py",
    "story/test_bad_input.py",
    "story/test_demo.py::test_the_demo_opens_a_verified_pull_request",
    "story/test_enterprise.py",
    "story/test_healing.py::test_a_workflow_that_is_still_running_is_waited_for[sqlite]",
    "story/test_takeover.py::test_a_worker_killed_in_the_middle_of_a_search_is_replaced[postgresql]",
)
_FILES_IN_CI = tuple(part for part in IN_CI if ".py" in part)
# Of these, what costs most: other inputs of what siblings or quick tests try too.
NOT_IN_CI = (
    "agent/checks/test_runner_node.py::test_a_file_that_cannot_be_loaded_is_told_or_fails_the_command",
    "agent/checks/test_runner_node.py::test_a_package_script_leads_to_the_runner",
    "agent/checks/test_runner_node.py::test_a_runner_that_is_asked_for_no_tests_is_no_crash",
    "agent/checks/test_runner_node.py::test_code_that_is_loaded_before_there_is_a_reporter_is_not_believed",
    "agent/checks/test_runner_node.py::test_each_kind_of_verdict_is_told[vitest]",
    "agent/checks/test_runner_node.py::test_green_is_told_as_green",
    "agent/checks/test_runner_node.py::test_mocha_is_observed_in_the_process_that_it_starts_for_options_of_node",
    "agent/checks/test_runner_node.py::test_node_s_own_runner_is_observed_in_newer_versions",
    "agent/checks/test_services.py::test_a_plain_process_has_servers_too_and_leaves_none",
    "agent/gate/test_gate.py::test_a_change_that_starves_beside_others_is_judged_alone",
    "agent/gate/test_gate.py::test_runs_that_starve_each_other_are_repeated_alone",
    "agent/models/test_langsmith.py",
    "agent/nodes/test_challenge.py::test_a_change_that_touches_no_function_is_not_challenged",
    "agent/nodes/test_challenge.py::test_a_test_from_the_specification_that_held_before_counts",
    "agent/nodes/test_challenge.py::test_an_example_that_needs_what_is_not_there_says_nothing",
    "agent/nodes/test_challenge.py::test_tests_that_were_written_blind_judge_the_next_change_of_the_same_functions_too",
    "agent/nodes/test_challenge.py::test_without_docstring_and_comment_no_model_is_asked_for_tests",
    "agent/nodes/test_review.py::test_a_critic_that_is_never_content_ends_with_the_budget_and_nothing_is_delivered",
    "agent/nodes/test_review.py::test_every_change_is_read_before_it_is_delivered_however_many_were_rejected",
    "agent/nodes/test_select.py::test_shrinking_leaves_the_proof_its_time",
    "agent/nodes/test_tournament.py::test_a_test_that_the_tools_formatted_is_no_reason_to_refuse_what_others_build_on_it",
    "agent/nodes/test_tournament.py::test_the_runner_up_comes_to_its_turn_when_the_winner_cannot_be_proven",
    "agent/nodes/test_tournament.py::test_what_the_tools_mend_is_built_on_where_a_test_is_red_as_well",
    "agent/nodes/test_verify.py::test_what_is_red_once_and_then_green_decides_nothing_and_is_told",
    "agent/nodes/test_weigh.py::test_only_some_unsure_changes_of_a_search_are_proven",
    "agent/proposers/patterns/test_generate.py::test_a_long_table_of_strings_is_listed_in_a_moment",
    "agent/proposers/patterns/test_generate.py::test_every_change_of_real_files_applies_and_can_be_taken_back",
    "agent/proposers/patterns/test_proposer.py::test_a_change_that_breaks_a_passing_test_is_not_handed_on",
    "agent/proposers/patterns/test_proposer.py::test_a_loop_without_end_is_searched_too",
    "agent/proposers/patterns/test_proposer.py::test_a_method_is_healed_and_its_comments_and_line_ends_are_kept",
    "agent/proposers/patterns/test_proposer.py::test_plugins_that_distribute_or_measure_are_out_of_the_way_loaded_or_not",
    "agent/proposers/patterns/test_proposer.py::test_the_change_reaches_the_code_wherever_it_stands",
    "agent/proposers/tools/test_local.py::test_each_formatter_of_the_table_does_what_its_row_says",
    "agent/proposers/tools/test_local.py::test_linter_and_imports_together_make_lint_and_tests_green",
    "agent/proposers/tools/test_proposer.py::test_a_missing_import_is_brought_back",
    "agent/proposers/tools/test_proposer.py::test_an_import_that_brings_another_thing_of_that_name_is_no_step",
    "app/attempt/test_healing_node.py",
    "app/attempt/test_hostile_jobs.py::test_a_hostile_step_before_the_failing_one_ends_in_its_outcome",
    "app/attempt/test_merges.py::test_a_failure_of_the_branch_is_repaired_on_the_branch",
    "app/attempt/test_story.py::test_a_later_attempt_learns_from_an_earlier_one_of_its_repository",
    "app/attempt/test_verified.py",
    "app/attempt/test_waiting.py::test_a_reply_outlives_the_worker_that_takes_it[sqlite-answered]",
    "app/attempt/test_waiting.py::test_a_reply_outlives_the_worker_that_takes_it[sqlite-report]",
    "app/cli/bench/test_bench.py::test_a_model_is_asked_only_when_it_is_named",
    "app/cli/bench/test_bench.py::test_breaks_of_a_repository_are_set_up_until_enough_are_measured",
    "app/cli/bench/test_bench.py::test_people_get_a_table",
    "app/cli/bench/test_bench.py::test_rungs_of_other_packages_take_part_and_are_named",
    "app/cli/bench/test_written.py::test_a_task_whose_model_cannot_be_asked_is_an_error_and_is_tried_again",
    "app/cli/checkout/test_fix.py::test_an_unsure_change_is_shown_and_not_written",
    "app/cli/checkout/test_fix.py::test_without_bubblewrap_it_heals_in_a_plain_process_and_says_so",
    (
        "app/cli/checkout/test_reproduce_command.py::"
        "test_a_requirement_that_nobody_has_is_the_failure_and_an_index_out_of_reach_is_not[False-infrastructure]"
    ),
    "sandbox/e2b/test_public_template.py::test_until_our_template_is_built_the_public_one_is_prepared",
    "sandbox/host/test_disk.py::test_a_dead_workers_folder_is_swept",
    "sandbox/proof/test_kinds.py::test_a_machine_at_e2b_holds",
    "story/test_bad_input.py::test_a_hanging_test_is_named",
    "story/test_bad_input.py::test_the_others_do_too[flood-postgresql]",
    "story/test_bad_input.py::test_the_others_do_too[green-postgresql]",
    "story/test_bad_input.py::test_the_others_do_too[hanging-postgresql]",
    "story/test_healing.py::test_a_workflow_that_is_still_running_is_waited_for",
)


def long_but(names: Iterable[str], *quick: str) -> list[object]:
    """Values for `parametrize`, of which only `quick` are run by `make test`."""
    every = list(names)
    assert set(quick) <= set(every), set(quick) - set(every)
    return [name if name in quick else pytest.param(name, marks=pytest.mark.long) for name in every]


def mark(items: list[pytest.Item]) -> None:
    for item in items:
        again = _postgresql(item) and not _within(item, ON_POSTGRESQL)
        if again or "judge" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.long)


def includes(name: Name, item: pytest.Item) -> bool:
    if name == "all" or item.get_closest_marker("long") is None:
        return name != "quick" or not _within(item, COSTLY)
    return name == "ci" and _within(item, _FILES_IN_CI if _postgresql(item) else IN_CI) and not _within(item, NOT_IN_CI)


def unknown_names(items: Iterable[pytest.Item]) -> list[str]:
    """Names above that match no test among all tests, because it was renamed or removed, or is long, or quick."""
    items = list(items)
    long = [item for item in items if item.get_closest_marker("long") is not None]
    short = [item for item in items if item.get_closest_marker("long") is None]
    chosen = [item for item in long if _within(item, IN_CI)]
    unknown = [part for part in IN_CI if not any(_within(item, (part,)) for item in chosen)]
    unknown += [part for part in COSTLY if not any(_within(item, (part,)) for item in short)]
    return unknown + [part for part in NOT_IN_CI if not any(_within(item, (part,)) for item in chosen)]


def is_slow(item: pytest.Item) -> bool:
    return _within(item, SLOW)


def _postgresql(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and any(
        callspec.params.get(fixture) == "postgresql" for fixture in ("database_url", "module_database_url")
    )


def _within(item: pytest.Item, parts: tuple[str, ...]) -> bool:
    """Whether the test is in one of these folders or files of `tests/`, or is one of these tests."""
    name = item.nodeid.removeprefix("tests/")
    return any(name == part or name.startswith((f"{part}/", f"{part}::", f"{part}[")) for part in parts)
