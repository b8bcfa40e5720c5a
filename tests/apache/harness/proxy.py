"""A TCP proxy whose faults are a script's to command.

One proxy is between one client script and one server. Its control port takes one command a line and answers
each, once it is in force, with a line that begins with `ok`:

  cut      close all connections; new ones are let through
  refuse   close all connections and every new one at once, until `heal`
  stall    keep all connections open, new ones too, and let no byte through, until `heal`
  heal     back to normal
  count    answers `ok N M`: connections let through so far, and open now
"""

import asyncio
import threading

CHUNK = 64 * 1024


class Proxy:
    """Runs on a thread of its own between `start` and `stop`."""

    def __init__(self, server_port):
        self.server_port = server_port
        self.port = None
        self.control_port = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._refusing = False
        self._accepted = 0
        self._open = set()

    def start(self):
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(timeout=5)
        return self

    def stop(self):
        asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result(timeout=5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)

    async def _listen(self):
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._clients = await asyncio.start_server(self._on_client, "127.0.0.1", 0)
        self._control = await asyncio.start_server(self._on_control, "127.0.0.1", 0)
        self.port = self._clients.sockets[0].getsockname()[1]
        self.control_port = self._control.sockets[0].getsockname()[1]

    async def _shut(self):
        self._clients.close()
        self._control.close()
        self._cut()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    async def _on_client(self, reader, writer):
        if self._refusing:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.server_port)
        except OSError:
            writer.transport.abort()
            return
        self._accepted += 1
        both = {writer, far_writer}
        self._open |= both
        try:
            # Each direction ends by itself: a server may close its own and still read what is on its way, so that the
            # client gets the last reply and no reset.
            await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
        except (OSError, asyncio.CancelledError):  # cancelled by `stop`; asyncio would log it
            pass
        finally:
            self._open -= both
            for end in both:
                end.close()

    async def _pump(self, reader, writer):
        while chunk := await reader.read(CHUNK):
            await self._flowing.wait()
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()

    async def _on_control(self, reader, writer):
        try:
            while line := await reader.readline():
                answer = self._obey(line.decode().strip())
                writer.write(f"{answer}\n".encode())
                await writer.drain()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def _obey(self, command):
        if command == "cut":
            self._cut()
        elif command == "refuse":
            self._refusing = True
            self._cut()
        elif command == "stall":
            self._flowing.clear()
        elif command == "heal":
            self._refusing = False
            self._flowing.set()
        elif command == "count":
            return f"ok {self._accepted} {len(self._open) // 2}"
        else:
            return f"error unknown command {command}"
        return "ok"

    def _cut(self):
        for end in self._open:
            end.transport.abort()
