# call: @
# call 3.10: -X dev @
# import: asyncio json
"""An event loop."""
import asyncio
import concurrent.futures


async def ticker(n):
    await asyncio.sleep(0.001 * n)
    return n


async def main():
    print(await asyncio.gather(*(ticker(n) for n in range(5))))
    process = await asyncio.create_subprocess_exec("/bin/echo", "hello", stdout=asyncio.subprocess.PIPE)
    print(await process.communicate())
    print(await asyncio.to_thread(sum, [1, 2, 3]))
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    server.close()
    try:
        await asyncio.wait_for(asyncio.sleep(10), 0.01)
    except asyncio.TimeoutError:
        print("timeout")


asyncio.run(main())
asyncio.run(asyncio.sleep(0))
with concurrent.futures.ProcessPoolExecutor(2) as pool:
    print(list(pool.map(abs, (-1, -2))))
