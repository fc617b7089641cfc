"""Names: what the platform calls a guild and its channels, for people who look at the pages."""

from __future__ import annotations

from fastapi import APIRouter

from channelmem.api.auth import GuildWriter
from channelmem.api.problems import responses
from channelmem.api.service import Given
from channelmem.wire.channels import Done
from channelmem.wire.names import NamesBody
from channelmem.wire.scalars import PathId

router = APIRouter(prefix="/v1", tags=["channels"], responses=responses())


@router.put("/guilds/{guild_id}/names")
async def tell_names(guild_id: PathId, body: NamesBody, caller: GuildWriter, given: Given) -> Done:
    """Tells names; those that are not mentioned stay. They expire after 30 days unless they are told again."""
    del caller
    await given.memory.overview.tell_names(guild_id, body.guild, body.by_channel())
    return Done()
