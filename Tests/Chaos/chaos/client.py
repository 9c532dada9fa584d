"""A small HTTP client on asyncio."""

import asyncio
import json
from typing import Any


class Unanswered(Exception):
    """No response arrived: the connection failed, or the request timed out."""


class Client:
    """Keeps one connection to each address, and reconnects when it fails."""

    def __init__(self, *, timeout: float) -> None:
        self._timeout = timeout
        self._streams: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    async def request(
        self, port: int, method: str, path: str, token: str, body: bytes = b"", headers: tuple[str, ...] = ()
    ) -> tuple[int, Any]:
        """Returns the status and the parsed JSON of the response."""
        try:
            return await asyncio.wait_for(self._request(port, method, path, token, body, headers), self._timeout)
        except (OSError, EOFError, ValueError, asyncio.TimeoutError) as error:
            await self.drop(port)
            raise Unanswered(f"{type(error).__name__}: {error}") from error

    async def drop(self, port: int) -> None:
        """Closes a connection."""
        if streams := self._streams.pop(port, None):
            streams[1].transport.abort()

    async def close(self) -> None:
        for port in list(self._streams):
            await self.drop(port)

    async def _request(
        self, port: int, method: str, path: str, token: str, body: bytes, headers: tuple[str, ...]
    ) -> tuple[int, Any]:
        if port not in self._streams:
            self._streams[port] = await asyncio.open_connection("127.0.0.1", port, limit=2**24)
        reader, writer = self._streams[port]
        head = [f"{method} {path} HTTP/1.1", "Host: gateway", f"Authorization: Bearer {token}", *headers]
        if body:
            head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        writer.write("\r\n".join([*head, "", ""]).encode() + body)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        text = await reader.readexactly(int(fields.get("content-length", 0)))
        if fields.get("connection", "").lower() == "close":
            await self.drop(port)
        return int(lines[0].split(" ")[1]), json.loads(text) if text else None
