"""Phones: they push through either gateway, and retry until they get a response.

This runs in a separate process: `python3 -m chaos.load --log FILE --seed N --lanes N --ports A,B`. It reads one command
a line from standard input: `pause` and `resume` (the gateways have a large backlog), and `finish` (it completes what
it has started, then ends). It logs what was pushed, what was acknowledged and each violation.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from harness.tokens import token

from .client import Client, Unanswered
from .mutations import Device, Lane, Mutation, make_lanes

WORKERS = 64
SETTLED = {"succeeded", "failed", "conflict", "discarded", "rejected"}


class Load:
    """All lanes, and the workers that push for them."""

    def __init__(self, lanes: list[Lane], ports: list[int], secret: str, log: TextIO, seed: int) -> None:
        self._lanes, self._ports, self._log = lanes, ports, log
        self._random = random.Random(f"{seed}/load")
        self._tokens = {lane.number: token(secret, lane.organization, lane.user) for lane in lanes}
        self._is_paused = False
        self._is_finishing = False
        self._idle = [device for lane in lanes for device in lane.devices]

    def obey(self, commands: str) -> None:
        for command in commands.split():
            match command:
                case "pause": self._is_paused = True
                case "resume": self._is_paused = False
                case "finish": self._is_finishing = True

    async def run(self) -> None:
        await asyncio.gather(*(self._work() for _ in range(WORKERS)))

    async def _work(self) -> None:
        # Less than a phone's time-out, so that a stopped gateway does not block it for long.
        client, other = Client(timeout=3), Client(timeout=3)
        while device := await self._next():
            try:
                await self._push(device, client, other)
            finally:
                self._idle.append(device)
        await client.close()
        await other.close()

    async def _next(self) -> Device | None:
        """A device with unpushed mutations that no worker is pushing."""
        while True:
            if self._is_finishing:
                waiting = [device for device in self._idle if device.outbox]
                if not waiting:
                    return None
                self._idle.remove(waiting[0])
                return waiting[0]
            if self._idle and not self._is_paused:
                index = self._random.randrange(len(self._idle))
                self._idle[index], self._idle[-1] = self._idle[-1], self._idle[index]
                return self._idle.pop()
            await asyncio.sleep(0.01)

    # One push

    async def _push(self, device: Device, client: Client, other: Client) -> None:
        """Until it is answered. Between two attempts the phone may have added mutations."""
        if not self._is_finishing:
            self._gather(device, self._random.randint(1, 12))
        while batch := list(device.outbox):
            port = self._random.choice(self._ports)
            choice = self._random.random()
            try:
                if choice < 0.05:
                    answer = await self._push_twice(device, batch, client, other)
                elif choice < 0.08:
                    answer = await self._hang_up(device, batch, client, port)
                else:
                    answer = await self._send(device, batch, client, port)
            except Unanswered:
                answer = None
            if answer is not None:
                self._take(device, batch, answer)
                break
            await asyncio.sleep(self._random.uniform(0.02, 0.3))
            if self._random.random() < 0.3 and not self._is_finishing:
                self._gather(device, self._random.randint(1, 4))
        if device.sent and self._random.random() < 0.15:
            await self._repeat(device, client)

    def _gather(self, device: Device, count: int) -> None:
        for _ in range(count):
            mutation = device.lane.add(device, self._stranger(device.lane))
            self._write("mutation", mutation=mutation.as_json())

    def _stranger(self, lane: Lane) -> str | None:
        other = self._random.choice(self._lanes)
        sent = [mutation for device in other.devices for mutation in device.sent]
        return self._random.choice(sent).local_id if sent and other is not lane else None

    async def _send(self, device: Device, batch: list[Mutation], client: Client, port: int) -> dict | None:
        body: dict[str, Any] = {"device_id": device.id, "mutations": [mutation.on_the_wire() for mutation in batch]}
        if device.acknowledged and self._random.random() < 0.5:
            body["after_sequence"] = device.acknowledged
        if self._random.random() < 0.2:
            # The order of the list does not matter.
            self._random.shuffle(body["mutations"])
        headers = ("Prefer: wait=1",) if self._random.random() < 0.2 else ()
        began, status = time.monotonic(), 0
        try:
            status, answer = await client.request(
                port, "POST", "/v1/mutations", self._tokens[device.lane.number], json.dumps(body).encode(), headers
            )
        finally:
            self._write("answer", status=status, seconds=round(time.monotonic() - began, 4), waits=bool(headers))
        if status in (200, 202):
            self._check(device, batch, answer, status)
            return answer
        if status not in (500, 503):
            self._complain(device, f"a push was answered {status}", answer)
        return None

    async def _push_twice(self, device: Device, batch: list[Mutation], client: Client, other: Client) -> dict | None:
        """To both gateways simultaneously."""
        both = await asyncio.gather(
            self._send(device, batch, client, self._ports[0]), self._send(device, batch, other, self._ports[1]),
            return_exceptions=True,
        )
        answers = [answer for answer in both if isinstance(answer, dict)]
        for error in both:
            if isinstance(error, BaseException) and not isinstance(error, Unanswered):
                raise error
        if len(answers) == 2:
            first, second = ({result["id"]: result["replayed"] for result in answer["results"]} for answer in answers)
            if any(not replayed and not second.get(known, True) for known, replayed in first.items()):
                self._complain(device, "two concurrent pushes were both treated as the first", answers)
        return answers[0] if answers else None

    async def _hang_up(self, device: Device, batch: list[Mutation], client: Client, port: int) -> dict | None:
        """The network fails while the response is in transit."""
        task = asyncio.create_task(self._send(device, batch, client, port))
        done, _ = await asyncio.wait([task], timeout=self._random.uniform(0.001, 0.03))
        if done:
            return task.result()
        task.cancel()
        await asyncio.wait([task])
        await client.drop(port)
        return None

    async def _repeat(self, device: Device, client: Client) -> None:
        """Repeats an acknowledged push, as a phone does that lost its state."""
        batch = device.sent[-self._random.randint(1, len(device.sent)):]
        try:
            answer = await self._send(device, batch, client, self._random.choice(self._ports))
        except Unanswered:
            return
        if answer and not all(result["replayed"] for result in answer["results"]):
            self._complain(device, "an acknowledged push was treated as a new one", answer)

    # Responses

    def _take(self, device: Device, batch: list[Mutation], answer: dict) -> None:
        device.acknowledge(batch)
        self._write("taken", markers=[mutation.marker for mutation in batch])

    def _check(self, device: Device, batch: list[Mutation], answer: dict, status: int) -> None:
        results = {result["id"]: result for result in answer["results"]}
        if results.keys() != {mutation.id for mutation in batch}:
            return self._complain(device, "the results are not those of the batch", answer)
        if any(result["status"] == "rejected" for result in results.values()):
            self._complain(device, "a valid mutation was rejected", answer)
        if answer["accepted_sequence"] < batch[-1].sequence:
            self._complain(device, f"accepted_sequence is below {batch[-1].sequence}", answer)
        if status == 200 and any(result["status"] not in SETTLED | {"blocked"} for result in results.values()):
            self._complain(device, "200, although some mutations are not settled", answer)

    def _complain(self, device: Device, what: str, answer: Any) -> None:
        self._write("complaint", lane=device.lane.number, what=what, answer=answer)

    def _write(self, kind: str, **members: Any) -> None:
        self._log.write(json.dumps({"is": kind, "at": time.monotonic()} | members) + "\n")
        self._log.flush()


async def run(chosen: argparse.Namespace) -> None:
    lanes = make_lanes(chosen.seed, chosen.lanes)
    loop = asyncio.get_running_loop()
    with chosen.log.open("w") as log:
        load = Load(lanes, chosen.ports, os.environ["CHAOS_JWT_SECRET"], log, chosen.seed)
        # It also finishes at the end of the input, because no further command can arrive.
        loop.add_reader(sys.stdin, lambda: load.obey(os.read(0, 4096).decode() or "finish"))
        await load.run()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m chaos.load", description=__doc__)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--lanes", type=int, required=True)
    parser.add_argument("--ports", type=lambda text: [int(port) for port in text.split(",")], required=True)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
