"""The critic reads what is proven: it may object with a reason, and never stands in the way without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.contract import events
from agent.contract.budget import Budget
from agent.contract.outcome import NoRepair, Repair
from agent.contract.task import Policy
from agent.models.router import Models
from agent.models.values import ModelSettings
from agent.nodes.review import Review, read_review
from agent.nodes.weigh import UNWITNESSED
from tests.agent.workbench import RIGHT, Bench, Scripted, change
from tests.standins.model import Reply, ScriptedModel, refused

pytestmark = pytest.mark.usefixtures("remembered_runs")

OTHER = change("a - b", "b + a")
CAUSE = Reply('{"cause": "it subtracts", "category": "logic", "confidence": 0.9}')
WORKED = Reply('{"accept": true, "reason": "", "input": "add(7, 8) gives 15"}')
REJECTED = Reply('{"accept": false, "reason": "it hard-codes the test", "input": "add(7, 8)"}', tokens=(50, 10))


async def healed(
    folder: Path, rung: Scripted, *replies: Reply, budget: Budget = Budget(), policy: Policy = Policy(min_confidence=0.0)
) -> tuple[Repair | NoRepair, Bench, ScriptedModel]:
    async with ScriptedModel(replies) as server:
        models = Models(ModelSettings("openai/scripted", server.openai_url, "k", 30.0))
        bench = Bench(folder)
        return await bench.heal(rung, models=models, policy=policy, budget=budget), bench, server


@pytest.mark.long
async def test_an_accepted_change_is_published_and_the_opinion_is_told(tmp_path: Path) -> None:
    result, bench, server = await healed(tmp_path, Scripted([(RIGHT,)]), Reply('{"accept": true}', tokens=(50, 10)))
    assert isinstance(result, Repair)
    assert result.usage.tokens_in == 50
    assert [event.accepted for event in bench.of(events.Opined) if event.step == "review"] == [True]
    prompt = server.asked[0].prompt
    assert "+    return a + b" in prompt
    assert "assert add(2, 3) == 5" in prompt


async def test_a_rejection_is_a_lesson_and_the_next_change_is_tried(tmp_path: Path) -> None:
    rung = Scripted([(OTHER,), (RIGHT,)])
    result, bench, _ = await healed(tmp_path, rung, REJECTED, Reply('{"accept": true}'))
    assert isinstance(result, Repair)
    assert result.edits == RIGHT
    assert "it hard-codes the test (for example with add(7, 8))" in rung.seen[1].lessons[0]
    assert [event.accepted for event in bench.of(events.Opined) if event.step == "review"] == [False, True]


CHANGES = [change("a - b", f"a + b + 0 * {n}") for n in range(4)]


@pytest.mark.long
async def test_every_change_is_read_before_it_is_delivered_however_many_were_rejected(tmp_path: Path) -> None:
    replies = [*[REJECTED] * 3, Reply('{"accept": true}')]
    result, _, server = await healed(tmp_path, Scripted([tuple(CHANGES)]), *replies)
    assert isinstance(result, Repair)
    assert len(server.asked) == len(CHANGES)
    assert not any("review" in doubt for doubt in result.doubts)


@pytest.mark.long
async def test_a_critic_that_is_never_content_ends_with_the_budget_and_nothing_is_delivered(tmp_path: Path) -> None:
    model = Scripted([(each,) for each in CHANGES], rung="model:scripted")
    result, _, server = await healed(tmp_path, model, CAUSE, *[REJECTED] * 3, budget=Budget(iterations=3))
    assert isinstance(result, NoRepair)
    assert sum("You review" in asked.prompt for asked in server.asked) == 3


@pytest.mark.long
async def test_after_two_rejections_a_search_makes_way_for_a_model_that_knows_the_reasons(tmp_path: Path) -> None:
    search, model = Scripted([tuple(CHANGES), (OTHER,)]), Scripted([(RIGHT,)], rung="model:scripted")
    async with ScriptedModel([*[REJECTED] * 2, CAUSE, WORKED]) as server:
        models = Models(ModelSettings("openai/scripted", server.openai_url, "k", 30.0))
        result = await Bench(tmp_path).heal(search, model, models=models)
    assert isinstance(result, Repair), result
    assert result.edits == RIGHT
    assert len(search.seen) == 1, "it had more to say"
    (seen,) = model.seen
    assert any("it hard-codes the test" in lesson for lesson in seen.lessons)
    assert any("2 other changes" in note for note in result.log.notes)


@pytest.mark.long
async def test_a_model_learns_from_rejections_and_is_not_left_for_a_stronger_one(tmp_path: Path) -> None:
    small = Scripted([(each,) for each in CHANGES], rung="model:small")
    strong = Scripted([(RIGHT,)], rung="model:strong")
    async with ScriptedModel([CAUSE, *[REJECTED] * 2, WORKED]) as server:
        models = Models(ModelSettings("openai/scripted", server.openai_url, "k", 30.0))
        result = await Bench(tmp_path).heal(small, strong, models=models)
    assert isinstance(result, Repair), result
    assert not strong.seen


@pytest.mark.long
async def test_the_search_that_comes_after_one_that_was_rejected_has_its_own_chances(tmp_path: Path) -> None:
    searches, model = [Scripted([tuple(CHANGES)]), Scripted([(OTHER,)])], Scripted([(RIGHT,)], rung="model:scripted")
    async with ScriptedModel([*[REJECTED] * 2, Reply('{"accept": true}')]) as server:
        models = Models(ModelSettings("openai/scripted", server.openai_url, "k", 30.0))
        result = await Bench(tmp_path).heal(*searches, model, models=models)
    assert isinstance(result, Repair), result
    assert result.edits == OTHER
    assert not model.seen


@pytest.mark.parametrize("reply", [Reply("Looks good to me!"), Reply('{"accept": false}'), refused()])
async def test_a_review_that_is_none_accepts_and_says_so(tmp_path: Path, reply: Reply) -> None:
    result, bench, _ = await healed(tmp_path, Scripted([(RIGHT,)]), reply, reply)
    assert isinstance(result, Repair)
    assert [event.step for event in bench.of(events.Degraded)] == ["review"]
    assert result.doubts


async def test_an_unusable_review_is_asked_for_once_more_and_both_answers_are_paid_for(tmp_path: Path) -> None:
    unusable = Reply("I see no fault.", tokens=(40, 5))
    result, bench, server = await healed(
        tmp_path, Scripted([(OTHER,), (RIGHT,)]), unusable, REJECTED, Reply('{"accept": true}', tokens=(50, 10))
    )
    assert isinstance(result, Repair)
    assert result.edits == RIGHT
    assert [event.accepted for event in bench.of(events.Opined) if event.step == "review"] == [False, True]
    assert not bench.of(events.Degraded)
    assert "I see no fault." in server.asked[1].prompt
    assert result.usage.tokens_in == 40 + 50 + 50


async def test_without_a_model_or_where_the_policy_wants_none_nobody_reads_and_nothing_is_degraded(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "none")
    assert isinstance(await bench.heal(Scripted([(RIGHT,)])), Repair)
    assert not bench.of(events.Degraded)
    _, bench, server = await healed(tmp_path / "policy", Scripted([(RIGHT,)]), policy=Policy(rungs=("patterns",)))
    assert not server.asked
    assert not bench.of(events.Degraded)


async def test_an_accepted_but_unnatural_change_is_published_with_a_doubt_and_less_confidence(tmp_path: Path) -> None:
    odd = Reply('{"accept": true, "unnatural": true, "reason": "it compares texts"}')
    plain, _, _ = await healed(tmp_path / "plain", Scripted([(RIGHT,)]), Reply('{"accept": true}'))
    result, _, _ = await healed(tmp_path / "odd", Scripted([(RIGHT,)]), odd, policy=Policy(min_confidence=0.5))
    assert isinstance(plain, Repair)
    assert isinstance(result, Repair)
    assert any("unnatural: it compares texts" in doubt for doubt in result.doubts)
    assert result.confidence < plain.confidence


async def test_a_change_of_the_tools_is_not_read(tmp_path: Path) -> None:
    _, _, server = await healed(tmp_path, Scripted([(RIGHT,)], rung="tools"))
    assert not server.asked


async def test_where_the_tokens_are_spent_it_is_said_that_nobody_read_it(tmp_path: Path) -> None:
    result, bench, server = await healed(tmp_path, Scripted([(RIGHT,)]), budget=Budget(tokens=0))
    assert isinstance(result, Repair)
    assert not server.asked
    assert "The review was skipped" in bench.of(events.Degraded)[0].why


@pytest.mark.parametrize(
    ("text", "review"),
    [
        ('{"accept": true, "reason": "fine"}', Review(True, "")),
        ('{"accept": true, "input": "add(7, 8) gives 15"}', Review(True, "", example="add(7, 8) gives 15")),
        ('{"accept": true, "input": {"call": "add(7, 8)"}}', Review(True, "", example='{"call": "add(7, 8)"}')),
        *((f'{{"accept": true, "input": "{none}"}}', Review(True, "")) for none in ("…", "n/a", "None.", "-")),
        ('```json\n{"accept": "yes"}\n```', Review(True, "")),
        ('Hm. {"accept": "no", "reason": "hides it"}', Review(False, "hides it")),
        ('{"accept": true, "unnatural": true, "reason": "a detour"}', Review(True, "", "a detour")),
        ('{"accept": false, "unnatural": true, "reason": "wrong"}', Review(False, "wrong")),
        ('{"accept": false, "reason": "", "input": "x"}', None),
        ('{"accept": "perhaps", "reason": "x"}', None),
        ("[]", None),
        ("{" * 100_000, None),
    ],
)
def test_a_verdict_is_read_leniently_and_a_rejection_needs_a_reason(text: str, review: Review | None) -> None:
    assert read_review(text) == review


@pytest.mark.parametrize(
    ("replies", "published"),
    [
        ([CAUSE, WORKED], True),
        ([CAUSE, Reply('{"accept": true, "reason": "it is right"}')], False),
        ([CAUSE, refused()], False),
    ],
    ids=["it worked through another input", "it only agrees", "there is none"],
)
async def test_a_models_change_needs_more_than_consent(tmp_path: Path, replies: list[Reply], published: bool) -> None:
    model = Scripted([(RIGHT,)], rung="model:scripted")
    result, _, _ = await healed(tmp_path, model, *replies, policy=Policy())
    assert isinstance(result, Repair) == published
    if isinstance(result, NoRepair):
        (suspect,) = result.suspects
        assert UNWITNESSED in suspect.doubts


GROWN = "def grown(age):\n    return age > 1\n"
LOOSE = {
    "ages.py": GROWN,
    "test_ages.py": "from ages import grown\n\ndef test_grown():\n    assert not grown(17)\n    assert grown(30)\n",
}


@pytest.mark.parametrize(
    ("variants", "accepted", "doubted"),
    [('["repair", "repair", "repair"]', True, False), ('["unclear"]', True, True), ('["variant"]', False, False)],
    ids=["the repair", "unclear", "the variant"],
)
@pytest.mark.long
async def test_the_review_decides_between_the_repair_and_its_variants(
    tmp_path: Path, variants: str, accepted: bool, doubted: bool
) -> None:
    model = Scripted([(change("> 1", ">= 18", "ages.py", GROWN),)], rung="model:scripted")
    async with ScriptedModel([CAUSE, Reply(f'{{"accept": true, "variants": {variants}}}')]) as server:
        models = Models(ModelSettings("openai/scripted", server.openai_url, "k", 30.0))
        bench = Bench(tmp_path)
        result = await bench.heal(model, files=LOOSE, models=models, policy=Policy(min_confidence=0.0))
    prompt = next(asked.prompt for asked in server.asked if "You review" in asked.prompt)
    assert "1. `age >= 18` becomes" in prompt
    assert [event.accepted for event in bench.of(events.Opined) if event.step == "review"] == [accepted]
    assert isinstance(result, Repair) == accepted
    if isinstance(result, Repair):
        assert any("they also pass if" in doubt for doubt in result.doubts) == doubted
    else:
        assert "`age >= 18` becomes" in result.log.iterations[0].result, "the variant is what the next change is told"


def test_what_it_chooses_is_read_in_order_whatever_else_stands_there() -> None:
    read = read_review('{"accept": true, "variants": ["Repair.", 3, " variant is right"]}')
    assert read == Review(True, "", choices=("repair", "", "variant"))
    assert read_review('{"accept": true, "variants": "repair"}') == Review(True, "")
