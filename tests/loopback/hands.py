"""What people do with a bot's commands on the loopback: open them, complete options, click, choose, fill in forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from . import components, payloads
from .gateway import Gateway
from .interactions import COMMAND, COMPLETION, COMPONENT, FORM, Interaction
from .payloads import ATTACHMENT, Channel, Json, Upload, User
from .rest import Rest
from .world import World

T = TypeVar("T")


class Server(Protocol):
    world: World
    gateway: Gateway
    rest: Rest

    async def until(self, probe: Callable[[], T | None]) -> T: ...


class Hands:
    """A part of Loopback; every method returns as soon as Discord has told the bot, unless it says otherwise."""

    async def slash(self: Server, channel: Channel, person: User, path: str, **values: object) -> Interaction:
        """`slash(general, mark, "memory forget me")`; a file is given as an `Upload`. See `answered`."""
        command, specs, chain = find_command(self.world.commands, path.split())
        files = {name: self.rest.upload(value) for name, value in values.items() if isinstance(value, Upload)}
        given = {name: files[name]["id"] if name in files else value for name, value in values.items()}
        data: Json = {"id": command["id"], "name": command["name"], "type": 1}
        data["options"] = nested(payloads.options(given, specs), chain)
        if files:
            data["resolved"] = {ATTACHMENT: {one["id"]: one for one in files.values()}}
        return await interact(self, channel, person, COMMAND, data)

    async def complete(
        self: Server, channel: Channel, person: User, path: str, option: str, typed: str, **values: object
    ) -> list[Json]:
        """What is offered while somebody types an option's value."""
        command, specs, chain = find_command(self.world.commands, path.split())
        options = payloads.options(values | {option: typed}, specs)
        for one in options:
            if one["name"] == option:
                one["focused"] = True
        assert next(spec for spec in specs if spec["name"] == option)["autocomplete"]
        data: Json = {"id": command["id"], "name": command["name"], "type": 1, "options": nested(options, chain)}
        asked = await interact(self, channel, person, COMPLETION, data)
        await self.until(lambda: asked.callbacks)
        choices: list[Json] = asked.callbacks[0]["data"]["choices"]
        return choices

    async def click(self: Server, message: Json, person: User, label: str) -> Interaction:
        """Presses the button with this label."""
        assert not message.get("_deleted")
        custom_id = components.labelled(message, label)["custom_id"]
        return await press(self, message, person, custom_id)

    async def choose(self: Server, message: Json, person: User, *labels: str) -> Interaction:
        """Chooses from the select that offers these labels."""
        assert not message.get("_deleted")
        select, values = components.offering(message, *labels)
        return await press(self, message, person, select["custom_id"], values)

    async def press(
        self: Server, message: Json, person: User, custom_id: str, values: list[str] | None = None
    ) -> Interaction:
        """Sends any custom id: of a button, or with values of a select."""
        return await press(self, message, person, custom_id, values)

    async def submit(self: Server, opened: Interaction, **values: str | list[str]) -> Interaction:
        """Sends the form that the bot opened; values by the custom ids of its inputs."""
        modal = opened.modal
        data = {"custom_id": modal["custom_id"], "components": components.filled_in(modal, values)}
        return await interact(self, opened.channel, opened.person, FORM, data, opened.source)

    async def answered(self: Server, interaction: Interaction, *, messages: int = 1) -> str:
        """The text of everything that the bot answered, once there is some."""
        await self.until(lambda: len(interaction.messages) >= messages and interaction.messages[-1]["content"])
        return interaction.text

    async def shown(self: Server, interaction: Interaction) -> Json:
        """The message that the bot answered with, once it no longer "is thinking"."""
        return await self.until(lambda: next((m for m in interaction.messages if not m["flags"] & 128), None))


async def press(
    server: Server, message: Json, person: User, custom_id: str, values: list[str] | None = None
) -> Interaction:
    channel = server.world.channels[int(message["channel_id"])]
    data: Json = {"custom_id": custom_id, "component_type": components.BUTTON, "id": 1}
    if values is not None:
        data |= {"component_type": components.SELECT, "values": values}
    return await interact(server, channel, person, COMPONENT, data, message)


async def interact(
    server: Server, channel: Channel, person: User, kind: int, data: Json, source: Json | None = None
) -> Interaction:
    world = server.world
    found = Interaction(world.snowflake(), f"token-{world.snowflake()}", channel, person, kind, source)
    server.rest.interactions.open[found.token] = found
    body = payloads.interaction(found.id, found.token, kind, data, channel, world.bot.id)
    body["app_permissions"] = str(world.permissions(channel, world.bot.id).value)
    body |= _asker(world, channel, person)
    if source is not None:
        body["message"] = {name: value for name, value in source.items() if not name.startswith("_")}
    await server.gateway.dispatch("INTERACTION_CREATE", body, channel.guild_id)
    return found


def _asker(world: World, channel: Channel, person: User) -> Json:
    """Who it is; in a guild with what they may do in this channel."""
    if not channel.guild_id:
        return {"user": payloads.user(person)}
    member = payloads.member(world.guilds[channel.guild_id].members[person.id])
    held = world.permissions(channel, person.id).value
    return {
        "guild_id": str(channel.guild_id),
        "guild_locale": "en-US",
        "guild": {"id": str(channel.guild_id), "locale": "en-US", "features": []},
        "member": member | {"permissions": str(held)},
    }


def find_command(commands: list[Json], words: list[str]) -> tuple[Json, list[Json], list[Json]]:
    """The registered command, its options, and its subcommands; unknown names fail as they would in a client."""
    level: list[Json] = commands
    chain: list[Json] = []
    for word in words:
        chain.append(next(spec for spec in level if spec["name"] == word))
        level = chain[-1].get("options", [])
    return chain[0], level, chain[1:]


def nested(options: list[Json], chain: list[Json]) -> list[Json]:
    """Options within the subcommands that lead to them."""
    for spec in reversed(chain):
        options = [{"name": spec["name"], "type": spec["type"], "options": options}]
    return options
