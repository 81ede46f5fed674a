"""The App and its installations, their tokens and the log of deliveries."""

from __future__ import annotations

from tests.standins.github.auth import Tokens
from tests.standins.github.deliveries import Deliveries
from tests.standins.github.routing import Answer, Call, Refusal, Routes, not_found
from tests.standins.github.serialise import Serialiser, stamp
from tests.standins.github.state import Installation


def routes(show: Serialiser, tokens: Tokens, deliveries: Deliveries) -> Routes:
    table = Routes()

    def installation(call: Call) -> Installation:
        found = call.world.installations.get(call.number("installation_id"))
        if found is None:
            raise not_found()
        return found

    @table.get("/app", "app")
    async def app(call: Call) -> Answer:
        return Answer.of(show.app(call.world.app) | {"installations_count": len(call.world.installations)})

    @table.get("/app/installations", "app")
    async def installations(call: Call) -> Answer:
        return call.page([show.installation(i) for i in call.world.installations.values()])

    @table.get("/app/installations/{installation_id}", "app")
    async def one_installation(call: Call) -> Answer:
        return Answer.of(show.installation(installation(call)))

    @table.get("/repos/{owner}/{repo}/installation", "app")
    async def repository_installation(call: Call) -> Answer:
        found = call.world.installation_of(call.repository)
        if found is None:
            raise not_found()
        return Answer.of(show.installation(found))

    @table.post("/app/installations/{installation_id}/access_tokens", "app")
    async def access_token(call: Call) -> Answer:
        of = installation(call)
        if of.suspended is not None:
            raise Refusal(403, "This installation has been suspended")
        token, chosen = tokens.mint(of, call.json())
        shown = {
            "token": token.value,
            "expires_at": stamp(token.expires),
            "permissions": token.actor.permissions,
            "repository_selection": "all" if chosen is None and of.selection == "all" else "selected",
        }
        if chosen is not None:
            shown["repositories"] = [show.repository(call.world.repositories[i]) for i in chosen]
        return Answer.of(shown, 201)

    @table.get("/installation/repositories", "token")
    async def repositories(call: Call) -> Answer:
        visible = [r for r in call.world.repositories.values() if r.id in (call.actor.repository_ids or ())]
        return call.page([show.repository(r) for r in visible], "repositories")

    @table.get("/app/hook/deliveries", "app")
    async def list_deliveries(call: Call) -> Answer:
        newest_first = [attempt.item() for attempt in reversed(deliveries.log)]
        size = int(call.query.get("per_page", "30"))
        start = int(call.query.get("cursor", "0").removeprefix("v1_") or 0)
        answer = Answer.of(newest_first[start : start + size])
        if start + size < len(newest_first):
            url = f"{call.world.url}{call.path}?per_page={size}&cursor=v1_{start + size}"
            answer.headers["link"] = f'<{url}>; rel="next"'
        return answer

    @table.get("/app/hook/deliveries/{delivery_id}", "app")
    async def one_delivery(call: Call) -> Answer:
        return Answer.of(deliveries.attempt(call.number("delivery_id")).full())

    @table.post("/app/hook/deliveries/{delivery_id}/attempts", "app")
    async def redeliver(call: Call) -> Answer:
        deliveries.redeliver(call.number("delivery_id"))
        return Answer.of({}, 202)

    return table
