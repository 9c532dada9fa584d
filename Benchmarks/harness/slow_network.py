"""A network between a client and a gateway that delays everything."""

import asyncio
import contextlib
import threading
from typing import Self

_CHUNK = 65_536


class SlowNetwork:
    """Forwards data between `port` and another port of this machine, in both directions, and delays each byte by this
    number of seconds. Runs on a thread of this process."""

    def __init__(self, target: int, seconds: float) -> None:
        self._target, self._seconds = target, seconds
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        start = asyncio.start_server(self._connect, "127.0.0.1", 0)
        server = asyncio.run_coroutine_threadsafe(start, self._loop).result()
        self.port = server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    @staticmethod
    async def _end() -> None:
        """Drops the data in transit."""
        own = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not own]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = await asyncio.open_connection("127.0.0.1", self._target)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(self._carry(reader, ends[1]), self._carry(ends[0], writer))

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        """Forwards data until the end of the source, which is delayed like all data."""
        while data := await self._read(source):
            self._loop.call_later(self._seconds, self._write, sink, data)
        self._loop.call_later(self._seconds, sink.close)

    @staticmethod
    async def _read(source: asyncio.StreamReader) -> bytes:
        try:
            return await source.read(_CHUNK)
        except ConnectionError:
            return b""

    @staticmethod
    def _write(sink: asyncio.StreamWriter, data: bytes) -> None:
        if not sink.is_closing():
            sink.write(data)
