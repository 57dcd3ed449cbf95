#!/usr/bin/env bats
# Randomness: two restores of one snapshot never share values that must differ between two processes; random(7),
# getrandom(2).
# images: pandas pandas-trixie pandas-forky
# once: a generator is seeded in the same way in both modes

load ../lib/warm.bash

# Run a program that prints lines "NAME VALUE" in three restores, and assert that no value occurs twice. The names are
# arguments, so that the test notices a line that is missing in all. START is the kind of start.
differ() {
    local program=$1
    shift
    for _ in 1 2 3; do
        expect 0 "${START:-warm}" -c "$program"
        [[ $(cut -d ' ' -f 1 <<<"$output" | xargs) == "$*" ]]
        printf '%s\n' "$output" >>values
    done
    [[ -z $(sort values | uniq -d) ]] || { echo "the same in two restores:" && sort values | uniq -d && return 1; }
    rm values
}

STANDARD='import multiprocessing, os, random, secrets, ssl, tempfile, uuid
print("urandom", os.urandom(8).hex())
print("getrandom", os.getrandom(8).hex())
print("random", random.getrandbits(64))
print("instance", random.Random().getrandbits(64))
print("system", random.SystemRandom().getrandbits(64))
print("secrets", secrets.token_hex(8))
print("uuid4", uuid.uuid4())
print("uuid1", uuid.uuid1())
print("tempfile", os.path.basename(tempfile.mktemp()))
print("RAND_bytes", ssl.RAND_bytes(8).hex())
print("authkey", bytes(multiprocessing.current_process().authkey).hex())'
NAMES='urandom getrandom random instance system secrets uuid4 uuid1 tempfile RAND_bytes authkey'

# Sources of the standard library: unused in the builder, and those that an import may use, used there.
standard_library() {
    use_image "$1"
    configure 'mount("/tmp", "tmpfs", kind="tmpfs")'
    local used=modules_that_used_them uses
    uses=$(grep -E '^import|"authkey"' <<<"$STANDARD" && echo 'random.Random(), tempfile.gettempdir()')
    preload multiprocessing,random,secrets,ssl,tempfile,uuid
    # shellcheck disable=SC2086 # names
    differ "$STANDARD" $NAMES
    preload_module $used <<<"import io, contextlib
with contextlib.redirect_stdout(io.StringIO()):
    exec('''$uses''')"
    # shellcheck disable=SC2086
    differ "$STANDARD" $NAMES
}

@test "the standard library, glibc of this distribution" {
    standard_library pandas
}

# bats test_tags=all
@test "the standard library, glibc 2.41 (Debian 13)" {
    standard_library pandas-trixie
}

@test "the standard library, glibc 2.43 (Debian 14)" {
    standard_library pandas-forky
}

NUMPY='import numpy
print("legacy", numpy.random.randint(1 << 62))
print("default_rng", numpy.random.default_rng().integers(1 << 62))
print("RandomState", numpy.random.RandomState().randint(1 << 62))'

numpy_sources() {
    use_image "$1"
    preload numpy
    differ "$NUMPY" legacy default_rng RandomState
    preload_module made <<<'import numpy
generator = numpy.random.default_rng()
state = numpy.random.RandomState()'
    differ "$NUMPY"'
import made
print("generator", made.generator.integers(1 << 62))
print("state", made.state.randint(1 << 62))
sequence = made.generator.bit_generator._seed_seq
print("sequence", sequence.entropy)
print("child", *sequence.spawn(1)[0].generate_state(2))' legacy default_rng RandomState generator state sequence child
}

@test "numpy: its global generator, and generators made by an import; this distribution" {
    numpy_sources pandas
}

# bats test_tags=all
@test "numpy: its global generator, and generators made by an import; numpy 2 (Debian 13)" {
    numpy_sources pandas-trixie
}

@test "numpy: its global generator, and generators made by an import; Python 3.14 (Debian 14)" {
    numpy_sources pandas-forky
}

@test "generators of the module random that an import has created without a seed, or with a different one each time" {
    use_image python
    preload_module made <<<'import os, random
class Own(random.Random): pass
plain, own = random.Random(), Own()
seeded = random.Random(hash("text"))
again = random.Random(42); again.seed()
system = random.SystemRandom()'
    differ 'import made
for name in "plain", "own", "seeded", "again", "system":
    print(name, getattr(made, name).getrandbits(64))' plain own seeded again system
}

@test "generators of the module random that the start has created: sitecustomize" {
    use_image python
    module sitecustomize.py <<<'import random; plain = random.Random(); fixed = random.Random(1)'
    preload json
    differ 'import sitecustomize; print("plain", sitecustomize.plain.getrandbits(64))' plain
    same -c 'import sitecustomize; print(sitecustomize.fixed.random())'
}

@test "a generator with a deliberate seed keeps its numbers" {
    use_image pandas
    preload_module seeded <<<'import random, numpy
generator = random.Random(42)
state = numpy.random.RandomState(42)
again = numpy.random.RandomState()
again.seed(42)
rng = numpy.random.default_rng(42)
state.rand(), again.rand(), rng.random()
class Own(random.Random): pass
own = Own(42)
own.gauss(0, 1)'
    same -c 'import random, seeded; print(seeded.generator.random()); random.seed(7); print(random.random())
print(seeded.state.rand(), seeded.again.rand(), seeded.rng.random(), seeded.own.gauss(0, 1))'
}

# The result of a program may depend on the seed if it imports that module; otherwise its numbers must differ.
@test "an import that seeds a global generator: no snapshot, and the generator is named" {
    use_image pandas
    module seeds.py <<<'import random; random.seed(42)'
    module seeds_numpy.py <<<'import numpy; numpy.random.seed(42)'
    module puts_back.py <<<'import numpy
other = numpy.random.get_state()
numpy.random.seed(42)
numpy.random.set_state(other)'
    preload seeds
    is_cold_because "the imports seed the global generator of random"
    preload seeds_numpy
    is_cold_because "the imports seed the global generator of numpy.random"
    preload puts_back
    differ 'import random, numpy
print("random", random.getrandbits(64))
print("numpy", numpy.random.randint(1 << 62))' random numpy
}

@test "numpy.random.seed in a program takes effect" {
    use_image pandas
    preload numpy
    same -c 'import numpy; numpy.random.seed(1); print(numpy.random.rand(3)); print(numpy.random.default_rng(1).random(3))'
}

@test "threads and forked processes have different numbers" {
    use_image pandas-trixie
    preload random,ssl,uuid
    prints "24 24" warm -c 'import os, random, ssl, threading, uuid
def draw(into): into += [os.urandom(8), uuid.uuid4().bytes, ssl.RAND_bytes(8)]
seen = []
for _ in range(4):
    thread = threading.Thread(target=draw, args=(seen,)); thread.start(); thread.join()
draw(seen)
for _ in range(3):
    r, w = os.pipe()
    if os.fork() == 0:
        mine = []; draw(mine); os.write(w, b"".join(m.ljust(16, b"-") for m in mine)); os._exit(0)
    data = os.read(r, 48); seen += [data[:16], data[16:32], data[32:48]]; os.wait()
print(len(seen), len(set(seen)))'
}

# OpenSSL's public and private generators, which a handshake uses, and the ticket keys of a server.
CLIENT='import ctypes, ssl
import imports
print("RAND_bytes", ssl.RAND_bytes(16).hex())
private = ctypes.create_string_buffer(16)
assert ctypes.CDLL("libcrypto.so.3").RAND_priv_bytes(private, 16) == 1
print("RAND_priv_bytes", private.raw.hex())
out = ssl.MemoryBIO()
connection = imports.context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost")
try:
    connection.do_handshake()
except ssl.SSLWantReadError:
    hello = out.read()
    print("random", hello[11:43].hex())
    print("session", hello[44:76].hex())
    print("share", hello.partition(b"\0\x1d\0\x20")[2][:32].hex()) # of X25519
keys = ctypes.create_string_buffer(80)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
# PySSLContext begins with the SSL_CTX; SSL_CTRL_GET_TLSEXT_TICKET_KEYS
pointer = ctypes.c_void_p.from_address(id(context) + 16)
assert ctypes.CDLL("libssl.so.3").SSL_CTX_ctrl(pointer, 58, 80, keys) == 1
print("tickets", keys.raw.hex())'

client_context() {
    use_image "$1"
    module imports.py <<<'import ctypes, ssl
context = ssl.create_default_context()
assert ctypes.CDLL("libcrypto.so.3").RAND_bytes(ctypes.create_string_buffer(1), 1) == 1'
    preload ctypes,imports
    differ "$CLIENT" RAND_bytes RAND_priv_bytes random session share tickets
}

@test "an SSL context for clients that an import has created: no connection equals that of another container; this distribution" {
    client_context pandas
}

@test "an SSL context for clients that an import has created: no connection equals that of another container; another OpenSSL" {
    client_context pandas-trixie
}

# The paths of cryptography's module, and of its OpenSSL: of current versions, and of those before 40.
@test "cryptography: its own OpenSSL, used by an import" {
    use_image pandas
    local name draw='import imports
for function in "RAND_bytes", "RAND_priv_bytes":
    print(function, imports.draw(function).hex())'
    module openssl.py <<<'import ctypes
class lib: pass
crypto = ctypes.CDLL("libcrypto.so.3")
lib.RAND_add = crypto.RAND_add
lib.RAND_add.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_double]
lib.RAND_add.restype = None'
    module imports.py <<<'import openssl, ctypes
def draw(function):
    out = ctypes.create_string_buffer(16)
    assert getattr(openssl.crypto, function)(out, 16) == 1
    return out.raw
draw("RAND_bytes"), draw("RAND_priv_bytes")'
    for name in '' hazmat/ hazmat/bindings/; do
        module "cryptography/${name}__init__.py" </dev/null
    done
    module cryptography/hazmat/bindings/_rust.py <<<'import openssl; _openssl = openssl'
    preload imports,cryptography.hazmat.bindings._rust
    differ "$draw" RAND_bytes RAND_priv_bytes
    module cryptography/hazmat/bindings/_rust.py </dev/null
    module cryptography/hazmat/bindings/_openssl.py <<<'from openssl import lib'
    preload imports,cryptography.hazmat.bindings._rust,cryptography.hazmat.bindings._openssl
    differ "$draw" RAND_bytes RAND_priv_bytes
    # If a context cannot be renewed, the interpreter starts anew. It must not write anything that the next one finds
    # changed.
    environment PYTHONDONTWRITEBYTECODE=1
    module cryptography/hazmat/bindings/_openssl.py <<<'lib = None'
    START=either differ "$draw" RAND_bytes RAND_priv_bytes
    is_cold_because "the imports cannot be continued: 'NoneType' object has no attribute 'RAND_add'"
    # The next one finds the reason in a variable, if the configuration has it.
    environment PYSBX_COLD_REASON=
    expect 0 either -c 'import os; print(os.environ["PYSBX_COLD_REASON"])'
    output_is "the imports cannot be continued: 'NoneType' object has no attribute 'RAND_add'"
}

@test "an import that creates an SSL context for servers: no snapshot, and the reason" {
    use_image python
    preload_module context <<<'import ssl; context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)'
    is_cold_because SSL
}

# Nothing tells what becomes of such bytes: a key, a text, or nothing.
@test "random bytes that code of Python draws at import: no snapshot, and the module is named" {
    use_image pandas
    local -A draws=(
        [urandom]='import os; key = os.urandom(32)'
        [posix]='import posix; key = posix.urandom(32)'
        [posix_getrandom]='from posix import getrandom; key = getrandom(32)'
        [getrandom]='import os; key = os.getrandom(32)'
        [hex]='import secrets; token = secrets.token_hex(16)'
        [choice]='import secrets; word = secrets.choice(list("abcdefgh"))'
        [text]='import uuid; name = f"node-{uuid.uuid4()}"'
        [instance]='import random; number = random.Random().random()'
        [time]='import random, time; number = random.Random(time.time_ns()).random()'
        [hash]='import random; words = list("abcdef"); random.Random(hash("text")).shuffle(words)'
        [subclass]='import random; exec("class Own(random.Random): pass"); name = Own().sample(range(99), 9)'
        [type]='import _random; number = _random.Random().random()'
        [state]='import random; state = random.getstate()'
        [name]='import tempfile; name = tempfile.mktemp(dir="/")'
        [ssl]='import ssl; key = ssl.RAND_bytes(32)'
    )
    for name in "${!draws[@]}"; do
        module "draws_$name.py" <<<"${draws[$name]}"
        preload "draws_$name"
        is_cold_because "the imports draw random bytes in the module 'draws_$name', which may keep them"
    done
}

# The device may have another name. A library may call the kernel itself, or not.
@test "random bytes that an import reads from a device or draws in C: no snapshot, and the reason" {
    use_image python
    configure 'mount("/tmp", "tmpfs", kind="tmpfs")'
    local name prelude='import ctypes; libc, bytes16 = ctypes.CDLL(None), ctypes.create_string_buffer(16); '
    local -A draws=(
        [open]='key = open("/dev/urandom", "rb", 0).read(16)'
        [descriptor]='import os; file = os.open("/dev/random", 0); key = os.read(file, 16); os.close(file)'
        [link]='import os; os.symlink("/dev/urandom", "/tmp/link"); key = open("/tmp/link", "rb", 0).read(16); os.unlink("/tmp/link")'
        [in_c]="${prelude}file = libc.open(b'/dev/urandom', 0); libc.read(file, bytes16, 16); libc.close(file)"
    )
    for name in "${!draws[@]}"; do
        module "reads_$name.py" <<<"${draws[$name]}"
        preload "reads_$name"
        is_cold_because "the imports read random bytes from a device, and may keep them"
    done
    preload_module function <<<"${prelude}libc.getrandom(bytes16, 16, 0)"
    is_cold_because "the imports draw random bytes by ctypes, and may keep them"
    preload_module number <<<"${prelude}libc.syscall(318, bytes16, 16, 0)"
    is_cold_because "the imports draw random bytes in '"
    preload_module database <<<'import sqlite3; number = sqlite3.connect(":memory:").execute("select random()").fetchone()'
    is_cold_because "the imports read random bytes from a device, and may keep them"
    preload_module text <<<'text = open("/proc/sys/kernel/random/uuid").read()'
    is_cold_because "the imports read '/proc/sys/kernel/random/uuid', which is not the same in all containers or at all times"
}

@test "a generator of numpy from which an import may have drawn a number: no snapshot, and the module is named" {
    use_image pandas
    local -A draws=(
        [number]='import numpy; number = numpy.random.default_rng().random()'
        [alive]='import numpy; generator = numpy.random.default_rng(); number = generator.random()'
        [legacy]='import numpy; state = numpy.random.RandomState(); number = state.standard_normal()'
        [sequence]='import numpy; sequence = numpy.random.SeedSequence()'
    )
    for name in "${!draws[@]}"; do
        module "numpy_$name.py" <<<"${draws[$name]}"
        preload "numpy_$name"
        is_cold_because "the imports draw numbers from a generator of numpy in the module 'numpy_$name', which may keep them"
    done
    # The author's seed may have 128 bits. Another number each time is none of the author's.
    preload_module numpy_seeded <<<'import numpy, time
generator = numpy.random.default_rng(0x87351080e25cb0fad77a44a3be03b491)
number = numpy.random.RandomState(42).rand() + generator.random()'
    same -c 'import numpy_seeded; print(numpy_seeded.number, numpy_seeded.generator.random())'
    preload_module numpy_hash <<<'import numpy; generator = numpy.random.default_rng(abs(hash("text")))'
    differ 'import numpy_hash; print("generator", numpy_hash.generator.random())' generator
}

@test "numbers that an import draws from a global generator: no snapshot, and the generator is named" {
    use_image pandas
    module from_random.py <<<'import random; number = random.random()'
    module from_numpy.py <<<'import numpy; number = numpy.random.rand()'
    preload from_random
    is_cold_because "the imports draw numbers from the global generator of random, and may keep them"
    preload from_numpy
    is_cold_because "the imports draw numbers from the global generator of numpy.random, and may keep them"
}

# The agent knows these packages (packages.py): it renews what they keep, or nothing depends on it. Here are modules with
# their names.
@test "random bytes that known packages keep are new in each container" {
    use_image python
    module openai/lib/bedrock.py <<<'import os; _LEGACY_SIGNATURE_KEY = os.urandom(32)'
    module litellm/integrations/custom_guardrail.py <<<'import secrets; _PRE_CALL_RAISED_TOKEN = secrets.token_hex(16)'
    preload openai.lib.bedrock,litellm.integrations.custom_guardrail,multiprocessing.process
    differ 'import multiprocessing, openai.lib.bedrock, litellm.integrations.custom_guardrail
print("key", openai.lib.bedrock._LEGACY_SIGNATURE_KEY.hex())
print("token", litellm.integrations.custom_guardrail._PRE_CALL_RAISED_TOKEN)
print("process", bytes(multiprocessing.current_process().authkey).hex())' key token process
    module openai/lib/bedrock.py <<<'import os; _LEGACY_SIGNATURE_KEY = os.urandom(32); OTHER = os.urandom(32).hex()'
    preload openai.lib.bedrock
    is_cold_because "the imports draw random bytes in the module 'openai.lib.bedrock', which may keep them"
}
