#!/usr/bin/env bats
# A snapshot depends on files other than modules: libraries, the interpreter, files that an import reads or only looks
# up, files that OpenSSL and SQLite open themselves. If one of them has changed, the program sees the same as in a fresh
# interpreter.
# images: python
# once: files are compared in the same way in both modes

load ../lib/warm-stale.bash

@test "an extension module was replaced" {
    own_root python
    preload _bz2
    local path show='import _bz2, os
inode = os.stat(_bz2.__file__).st_ino
print([line.split()[4] == str(inode) for line in open("/proc/self/maps") if "_bz2" in line][0], os.stat(_bz2.__file__).st_size)'
    path=root$(cold -c 'import _bz2; print(_bz2.__file__)')
    size=$(stat -c %s "$path")
    warm_says "True $size" -c "$show"
    cp "$path" copy && printf x >>copy && mv copy "$path"
    now_says "True $((size + 1))" -c "$show"
}

@test "a library was replaced" {
    own_root python
    preload _bz2
    local path show='import _bz2, os, sys
path = os.path.realpath(sys.argv[1])
print({line.split()[4] for line in open("/proc/self/maps") if path in line} == {str(os.stat(path).st_ino)}, os.stat(path).st_size)'
    path=$(cold -c 'import _bz2; print([line.split()[5] for line in open("/proc/self/maps") if "libbz2" in line][0])')
    size=$(stat -c %s "root$path")
    warm_says "True $size" -c "$show" "$path"
    cp "root$path" copy && printf x >>copy && mv copy "root$path"
    now_says "True $((size + 1))" -c "$show" "$path"
}

@test "the C library is another copy" {
    own_root python
    local path show='import os, sys
path = os.path.realpath(sys.argv[1])
print({line.split()[4] for line in open("/proc/self/maps") if path in line} == {str(os.stat(path).st_ino)})'
    path=$(cold -c 'print([line.split()[5] for line in open("/proc/self/maps") if "libc.so" in line][0])')
    warm_says True -c "$show" "$path"
    cp -p "root$path" copy && mv copy "root$path"
    now_says True -c "$show" "$path"
}

@test "a file that an import only looks up: its status, whether it exists, the target of a link" {
    mkdir -p data/there
    touch -d @1 data/size
    echo first >data/there/file
    ln -s there data/link
    configure 'mount("/data", arguments[0])' "$PWD/data"
    preload_module looks <<<'import os, pathlib
size, link, new = os.path.getsize("/data/size"), os.readlink("/data/link"), os.access("/data/new", os.R_OK)
there, directory = os.path.isfile("/data/there/file"), os.path.isdir("/data/there")
absent, path = os.path.exists("/data/absent"), pathlib.Path("/data/path").exists()'
    local show='import looks; print({n: v for n, v in vars(looks).items() if type(v) in (int, str, bool) and n[0] != "_"})' line
    expect 0 warm -c "$show"
    # If an import only asks whether a file exists, its content does not count.
    echo second >data/there/file
    touch data/there/beside
    expect 0 warm -c "$show"
    for line in "echo longer >data/size" "ln -sfn elsewhere data/link" "touch data/new" "touch data/absent" \
        "touch data/path" "rm data/there/file && mkdir data/there/file" "rmdir data/there/file" "rm -r data/there"; do
        eval "$line"
        fails 1 "'/data/" warm -c "$show"
        same -c "$show"
    done
}

@test "a directory whose time, size or number of links an import keeps" {
    mkdir -p data/kept/below data/asked
    configure 'mount("/data", arguments[0])' "$PWD/data"
    module asks.py <<<'import os, pathlib
asked = os.path.realpath("/data/asked"), pathlib.Path("/data/asked").is_dir(), os.path.ismount("/data/asked")'
    for way in "stat:os.stat('/data/kept')" "lstat:os.lstat('/data/kept')" "path:pathlib.Path('/data/kept').stat()" \
        "place:(data := os.open('/data', 0), os.stat('kept', dir_fd=data), os.close(data))[1]" \
        "fstat:(kept := os.open('/data/kept', 0), os.fstat(kept), os.close(kept))[1]" \
        "entry:[entry for entry in os.scandir('/data') if entry.name == 'kept'][0].stat()"; do
        name=by_${way%%:*}
        preload_module "$name" <<<"import os, pathlib; found = ${way#*:}; kept = found.st_mtime_ns, found.st_nlink"
        cold -c "import $name" # writes the compiled form
        expect 0 warm -c "import $name; print($name.kept)"
        same -c "import $name; print($name.kept)"
        mkdir "data/kept/$name"
        fails 1 "'/data/kept' has changed" warm -c "import $name; print($name.kept)"
        same -c "import $name; print($name.kept)"
    done
    # The type and the place of a directory do not change with its content.
    preload asks
    expect 0 warm -c 'import asks; print(asks.asked)'
    mkdir data/asked/below
    expect 0 warm -c 'import asks; print(asks.asked)'
}

@test "certificates and keys that an import loads, and OpenSSL reads" {
    mkdir certificates
    configure 'mount("/certificates", arguments[0])' "$PWD/certificates"
    preload greeting
    for call in 'load_verify_locations("/certificates/file")' 'load_verify_locations(cafile=pathlib.Path("/certificates/file"))' \
        'load_cert_chain("/certificates/file", "/certificates/key")' 'load_cert_chain(certfile="/certificates/file")'; do
        rm -f certificates/file
        module greeting.py <<<"import importlib, pathlib
ssl = importlib.import_module('ssl')
try:
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).$call
except OSError as error:
    text = type(error).__name__"
        now_says FileNotFoundError -c "$SAY"
        echo 'no certificate' >certificates/file
        now_says SSLError -c "$SAY"
    done
}

@test "the configuration of OpenSSL, and its included files" {
    own_root python
    mkdir etc
    printf '%s\n' 'openssl_conf = all' '.include = /openssl/more' >etc/openssl.cnf
    mkdir etc/more
    minimum() {
        printf '%s\n' '[all]' 'ssl_conf = ssl' '[ssl]' 'system_default = default' '[default]' "MinProtocol = $1" >etc/more/a.cnf
    }
    minimum TLSv1.2
    configure 'mount("/openssl", arguments[0])' "$PWD/etc"
    environment OPENSSL_CONF=/openssl/openssl.cnf
    preload ssl
    local say='import ssl; print(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).minimum_version.name)'
    warm_says TLSv1_2 -c "$say"
    minimum TLSv1.3
    now_says TLSv1_3 -c "$say"
    echo >etc/openssl.cnf
    now_says MINIMUM_SUPPORTED -c "$say"
}

@test "a database that an import reads, and SQLite opens" {
    local name number=1
    mkdir data
    configure 'mount("/data", arguments[0])' "$PWD/data"
    preload greeting
    write() {
        python3 -c 'import sqlite3, sys
with sqlite3.connect("data/db") as base:
    base.executescript("create table if not exists words (word); delete from words")
    base.execute("insert into words values (?)", sys.argv[1:])
base.close()' "$1"
    }
    for name in '"/data/db"' 'pathlib.Path("/data/db")' '"file:/data/db?mode=ro", uri=True' '"file:///data/db?immutable=1#", uri=True'; do
        module greeting.py <<<"import pathlib, sqlite3
base = sqlite3.connect($name)
[text], = base.execute('select word from words')
base.close()"
        write "word $number"
        now_says "word $number" -c "$SAY"
        write "other word $number"
        now_says "other word $((number++))" -c "$SAY"
    done
}

@test "the interpreter was replaced" {
    own_root python
    path=root$(cold -c 'import os, sys; print(os.path.realpath(sys.executable))')
    size=$(stat -c %s "$path")
    warm_says "$size" -c 'import os; print(os.stat("/proc/self/exe").st_size)'
    cp -p "$path" copy && printf x >>copy && mv copy "$path"
    now_says "$((size + 1))" -c 'import os; print(os.stat("/proc/self/exe").st_size)'
}

@test "pyvenv.cfg, .pth files and sitecustomize appeared" {
    own_root python
    local show='import builtins, sys; print("/added" in sys.path, getattr(builtins, "customized", False))' directory
    warm_says "False False" -c "$show"
    mkdir root/added
    directory=root$(cold -c 'import site; print(site.getsitepackages()[-1])')
    mkdir -p "$directory"
    echo /added >"$directory/added.pth"
    now_says "True False" -c "$show"
    directory=root$(cold -c 'import os; print(os.path.dirname(os.__file__))')
    rm -f "$directory/sitecustomize.py" # Debian has one, a link to /etc
    echo 'import builtins; builtins.customized = True' >"$directory/sitecustomize.py"
    now_says "True True" -c "$show"
    show='import sys; print(getattr(sys, "_home", None))'
    warm_says None -c "$show"
    echo 'home = /usr/bin' >root/usr/bin/pyvenv.cfg
    now_says /usr/bin -c "$show"
}

@test "two roots of the same content have separate snapshots" {
    own_root python
    preload json
    local show='import os; import json; print(os.stat(json.__file__).st_ino)'
    warm_says "$(stat -c %i root/usr/lib/python3*/json/__init__.py)" -c "$show"
    cp -a root second
    configure 'config["root"]["path"] = arguments[0]' "$PWD/second"
    now_says "$(stat -c %i second/usr/lib/python3*/json/__init__.py)" -c "$show"
}

@test "a library's link leads to another version" {
    module greeting.py <<<'import ctypes; text = ctypes.CDLL("/modules/lib/libgreeting.so").version()'
    mkdir modules/lib # a directory that no import searches
    for version in 1 2; do
        gcc -shared -fPIC -nostdlib -o "modules/lib/libgreeting-$version.so" -x c - <<<"int version(void) { return $version; }"
    done
    ln -s libgreeting-1.so modules/lib/libgreeting.so
    preload greeting
    warm_says 1 -c "$SAY"
    ln -sfn libgreeting-2.so modules/lib/libgreeting.so
    now_says 2 -c "$SAY"
}
