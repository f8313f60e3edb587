"""A Python that waits for its program.

This runs inside `site`, before the interpreter opens its program. It imports what programs are likely to need, hides
all of it again, says that it is ready, waits until it is told of its program, and returns: the interpreter goes on as
it always does. A module that was hidden is given back when the program imports it, together with what its own
execution would have imported, so that `sys.modules`, the attributes of packages, the filters for warnings, what is to
be done at exit and whatever else comes of executing a module come into view exactly then. Where that cannot be exact
(say, a file of the program's own shadows a module) this process becomes a new interpreter in place.

Descriptor 3 is a socket: one byte says that this waits; what comes is fields that each end with a NUL (is there
standard input; the number of arguments; these; the environment). Descriptor 4 is the pipe for standard input.

Only modules that every interpreter has loaded by now are imported here: any other would be a trace.
"""

import _io
import _signal
import _warnings
import builtins
import os
import posix
import sys

CHANNEL = 3
STDIN = 4
READY = b"r"
HOOK_VARIABLE = "BELLJAR_WARM"
PRELOAD = "/usr/lib/belljar/preload-%s.txt"

bootstrap = sys.modules["_frozen_importlib"]
external = sys.modules["_frozen_importlib_external"]
real_load = bootstrap._load_unlocked
real_find_and_load = bootstrap._find_and_load
real_find_spec = bootstrap._find_spec
real_import = builtins.__import__


class Entry:
    """A hidden module, and what comes into view with it."""

    __slots__ = (
        "name", "module", "spec", "number", "imports", "events", "aliases", "parent", "child", "path", "unique",
        "shadowable", "closure",
    )


class Recorder:
    """Watches imports and notes what each module's execution imports and does."""

    def __init__(self):
        self.active = True
        self.base = set(sys.modules)
        self.known = set(sys.modules)
        # Modules that are executing, the innermost last.
        self.stack = []
        self.imports = {}
        self.events = {}
        self.aliases = {}
        self.order = {}
        self.specs = {}
        self.attributes = {}
        self.count = 0
        # Taken out of `sys.modules` while an extension executes.
        self.hidden = {}
        self.filters = list(_warnings.filters)
        self.meta_path = list(sys.meta_path)
        self.path_hooks = list(sys.path_hooks)
        self.path = list(sys.path)
        self.environ = dict(os.environ._data)
        self.restore = []

    def number(self):
        self.count += 1
        return self.count

    def note(self, name):
        """The module that is executing has imported `name`, and with it its packages."""
        owner = self.stack[-1] if self.stack else None
        while owner is not None and name:
            if name not in self.base and name != owner:
                self.imports.setdefault(owner, {})[name] = None
            name = name.rpartition(".")[0]

    def event(self, replay):
        """The module that is executing has done something else."""
        if self.stack:
            self.events.setdefault(self.stack[-1], []).append((self.number(), replay))

    def settle(self):
        """What has changed since the last time is the work of the module that is executing."""
        if _warnings.filters != self.filters:
            before, after = self.filters, list(_warnings.filters)
            self.filters = after
            self.event(lambda: replay_filters(before, after))
        for known, current in ((self.meta_path, sys.meta_path), (self.path_hooks, sys.path_hooks)):
            if known != current:
                added = [one for one in current if one not in known]
                if [one for one in current if one not in added] != known or current[len(known):] != added:
                    raise RuntimeError("a module rearranges the finders")
                known[:] = current
                self.event(lambda current=current, added=added: current.extend(added))
        if not self.stack and (sys.path != self.path or os.environ._data != self.environ):
            raise RuntimeError("a module changes the path or the environment")
        if len(sys.modules) + len(self.hidden) != len(self.known):
            for name in list(sys.modules):
                if name not in self.known:
                    self.known.add(name)
                    if self.stack:
                        self.aliases.setdefault(self.stack[-1], []).append(name)

    def load(self, spec):
        self.settle()
        name = spec.name
        self.note(name)
        self.specs[name] = spec
        self.known.add(name)
        # Extensions ask for modules past `__import__`: that is seen only where the module is not there.
        outer = self.hidden
        extension = isinstance(spec.loader, external.ExtensionFileLoader)
        if extension:
            self.hidden = dict(outer)
            for other in list(sys.modules):
                if other not in self.base and other not in self.stack:
                    self.hidden[other] = sys.modules.pop(other)
        self.stack.append(name)
        try:
            module = real_load(spec)
            # In the order of their ends, as they stand in `sys.modules`.
            self.order.setdefault(name, self.number())
            self.attributes[name] = set(vars(module))
        finally:
            self.settle()
            self.stack.pop()
            if extension:
                for other, hidden in self.hidden.items():
                    if other not in outer:
                        sys.modules.setdefault(other, hidden)
                self.hidden = outer
        if name == "atexit":
            self.watch(module, "register")
        elif name == "threading":
            self.watch(module, "_register_atexit")
        return module

    def watch(self, module, name):
        """Calls of this function are the work of whoever is executing, to be done again."""
        function = getattr(module, name)

        def watched(*args, **kwargs):
            if not self.active or not self.stack:
                return function(*args, **kwargs)
            self.event(lambda: function(*args, **kwargs))
            return args[0] if args else None

        setattr(module, name, watched)
        self.restore.append((module, name, function))

    def find_and_load(self, name, import_):
        part = name
        while part:
            if part in self.hidden:
                sys.modules[part] = self.hidden.pop(part)
            part = part.rpartition(".")[0]
        module = real_find_and_load(name, import_)
        self.note(name)
        return module

    def import_(self, name, globals=None, locals=None, fromlist=(), level=0):
        module = real_import(name, globals, locals, fromlist, level)
        if self.stack:
            if level:
                name = bootstrap._resolve_name(name, bootstrap._calc___package__(globals), level)
            self.note(name)
            for item in fromlist or ():
                if isinstance(item, str) and name + "." + item in sys.modules:
                    self.note(name + "." + item)
        return module


def replay_filters(before, after):
    """The filters that a module adds, in the places where its execution would have put them."""
    current = _warnings.filters
    if current == before:
        current[:] = after
    else:
        added = [item for item in after if item not in before]
        old = [at for at, item in enumerate(after) if item in before]
        front = [item for item in added if not old or after.index(item) < old[0]]
        current[:] = [item for item in current if item not in added]
        current[:0] = front
        current.extend(item for item in added if item not in front)
    _warnings._filters_mutated()


def preload():
    """Imports what is named and returns it, hidden, by name."""
    # As bytes: a codec that is loaded here would be a trace.
    with _io.open(PRELOAD % KIND, "rb") as file:
        lines = [line.strip().decode() for line in file]
    names = [line for line in lines if line and not line.startswith("#")]
    recorder = Recorder()
    recorder.watch(os, "register_at_fork")
    recorder.watch(posix, "register_at_fork")
    bootstrap._load_unlocked = recorder.load
    bootstrap._find_and_load = recorder.find_and_load
    builtins.__import__ = recorder.import_
    try:
        for name in names:
            bootstrap._gcd_import(name)
            recorder.settle()
    finally:
        recorder.active = False
        builtins.__import__ = real_import
        bootstrap._find_and_load = real_find_and_load
        bootstrap._load_unlocked = real_load
        for module, name, function in reversed(recorder.restore):
            setattr(module, name, function)
    return hide(recorder), names


def hide(recorder):
    """Takes every trace of what was imported away."""
    entries = {}
    standard = tuple(folder + "/lib-dynload/" for folder in sys.path)
    for name, number in recorder.order.items():
        if name in recorder.base or name not in sys.modules:
            continue
        entry = Entry()
        entry.name = name
        entry.module = sys.modules[name]
        entry.spec = recorder.specs[name]
        entry.number = number
        entry.imports = tuple(recorder.imports.get(name, ()))
        entry.events = recorder.events.get(name, [])
        entry.aliases = []
        entry.parent, _, entry.child = name.rpartition(".")
        entry.path = None
        # An extension of a package cannot always be loaded twice in one process.
        entry.unique = isinstance(entry.spec.loader, external.ExtensionFileLoader) and not entry.spec.origin.startswith(
            standard
        )
        entry.shadowable = entry.spec.origin not in ("built-in", "frozen")
        entry.closure = None
        entries[name] = entry
    # By name where it is a module of every interpreter, lest the main module outlives its end.
    known = {id(sys.modules[name]): name for name in recorder.base}
    for owner, names in recorder.aliases.items():
        if owner in entries:
            entries[owner].aliases = [
                (name, known.get(id(sys.modules[name]), sys.modules[name])) for name in names if name in sys.modules
            ]
    for name in list(sys.modules):
        if name not in recorder.base:
            del sys.modules[name]
    for entry in entries.values():
        if not entry.parent:
            entry.child = None
            continue
        parent = entries.get(entry.parent)
        parent = sys.modules[entry.parent] if parent is None else parent.module
        entry.path = list(parent.__path__) if hasattr(parent, "__path__") else None
        if vars(parent).get(entry.child) is entry.module:
            delattr(parent, entry.child)
        else:
            entry.child = None
    for entry in entries.values():
        attributes = vars(entry.module)
        if "__getattr__" in attributes:
            # What was made because somebody asked for it is made again.
            for name in set(attributes) - recorder.attributes[entry.name]:
                del attributes[name]
    _warnings.filters[:] = [item for item in _warnings.filters if item in FILTERS]
    _warnings._filters_mutated()
    sys.meta_path[:] = META_PATH
    sys.path_hooks[:] = PATH_HOOKS
    return entries


FILTERS = list(_warnings.filters)
META_PATH = list(sys.meta_path)
PATH_HOOKS = list(sys.path_hooks)


class Stash:
    """Gives hidden modules back. Stands before the ordinary finders, and lets them answer wherever it is not sure."""

    def __init__(self, entries):
        self.entries = entries
        self.given = set()
        self.meta_path = list(sys.meta_path)
        self.path_hooks = list(sys.path_hooks)
        self.standard = list(sys.path)
        self.importing = bootstrap._find_and_load_unlocked.__code__
        self.blocked = frozenset()

    def find_spec(self, name, path, target=None):
        entry = self.entries.get(name)
        # Whoever only asks where a module is gets the ordinary answer.
        if entry is None or sys._getframe(1).f_code is not self.importing or not self.fits(entry):
            return real_find_spec(name, path, target)
        return bootstrap.ModuleSpec(name, self)

    def create_module(self, spec):
        return self.entries[spec.name].module

    def exec_module(self, module):
        entry = self.entries[module.__spec__.name]
        module.__spec__ = entry.spec
        self.give(entry)

    def closure(self, entry):
        """What the module's execution would have imported, itself included, in the order of loading."""
        if entry.closure is None:
            seen = {entry.name: entry}
            todo = [entry]
            while todo:
                for name in todo.pop().imports:
                    other = self.entries.get(name)
                    if other is not None and name not in seen:
                        seen[name] = other
                        todo.append(other)
            entry.closure = sorted(seen.values(), key=lambda one: one.number)
        return entry.closure

    def fits(self, entry):
        """Whether a program that imports the module now would get it as it was hidden."""
        if entry.name in self.given:
            return False
        closure = self.closure(entry)
        blocked = self.taken(closure) | self.shadowed(closure)
        if entry.name in blocked:
            return False
        if entry.parent:
            parent = sys.modules.get(entry.parent)
            known = self.entries.get(entry.parent)
            if known is not None and known.module is not parent or list(parent.__path__) != entry.path:
                return False
        exact = (
            not blocked
            and sys.meta_path == self.meta_path
            and sys.path_hooks == self.path_hooks
            and builtins.__import__ is real_import
        )
        # Better a little inexact than a second copy of what can be loaded only once.
        if not exact and not any(one.unique for one in closure):
            return False
        self.blocked = blocked
        return True

    def taken(self, closure):
        """Modules that the program has replaced, or removed again."""
        modules = sys.modules
        found = set()
        for one in closure:
            name = one.name
            if name in modules:
                if modules[name] is not one.module:
                    found.add(name)
            elif name in self.given:
                found.add(name)
        return found

    def shadowed(self, closure):
        """Modules that the program's own folders have too."""
        tops = {one.name for one in closure if one.shadowable and not one.parent and one.name not in self.given}
        return shadowed(tops, self.standard) if tops else tops

    def give(self, entry):
        modules = sys.modules
        events, refresh = [], []
        for one in self.closure(entry):
            name = one.name
            if name in self.given or name in self.blocked:
                continue
            self.given.add(name)
            modules[name] = one.module
            if one.child is not None:
                parent = self.entries.get(one.parent)
                vars(sys.modules[one.parent] if parent is None else parent.module)[one.child] = one.module
            for alias, module in one.aliases:
                modules[alias] = modules[module] if isinstance(module, str) else module
            if one.events:
                events.extend(one.events)
            if name in REFRESH:
                refresh.append(one)
        events.sort(key=lambda event: event[0])
        for _, replay in events:
            replay()
        for one in refresh:
            REFRESH[one.name](one.module)
        if events:
            self.meta_path = list(sys.meta_path)
            self.path_hooks = list(sys.path_hooks)


def shadowed(tops, standard):
    """Which of these names a folder of the path has that is searched before the standard ones."""
    if not set(standard) <= set(sys.path):
        return tops
    last = max(sys.path.index(folder) for folder in standard)
    found = set()
    for folder in sys.path[:last]:
        if folder not in standard:
            try:
                names = posix.listdir(folder or ".")
            except NotADirectoryError:
                return tops
            except OSError:
                continue
            found.update(tops.intersection(name.partition(".")[0] for name in names))
    return found


def refresh_logging(module):
    import time

    module._startTime = time.time_ns()


def refresh_process(module):
    try:
        module.ORIGINAL_DIR = os.path.abspath(posix.getcwd())
    except OSError:
        module.ORIGINAL_DIR = None


def refresh_matplotlib(module):
    backend = os.environ.get("MPLBACKEND")
    if backend and backend != BACKEND:
        module.rcParams["backend"] = backend


# What a module computes of the moment of its execution.
REFRESH = {
    "logging": refresh_logging,
    "multiprocessing.process": refresh_process,
    "matplotlib": refresh_matplotlib,
}
BACKEND = os.environ.get("MPLBACKEND")
KIND = os.environ[HOOK_VARIABLE]


def keep(entries):
    """Makes what is hidden immortal, so that the end of the interpreter does not pay for taking it apart."""
    values = [one.module for one in entries.values()]
    for one in entries.values():
        values.extend(vars(one.module).values())
    values.append(values)
    import gc

    # The main module's variables must stay the collector's, or what they hold at the end is never taken apart. A
    # dictionary of nothing but texts is none of its business, until something else is put into it again.
    variables = vars(sys.modules["__main__"])
    saved = dict(variables)
    for name, value in saved.items():
        if value is not None and not isinstance(value, str):
            variables[name] = None
    gc.collect()
    gc.freeze()
    variables.update(saved)
    if not gc.is_tracked(variables):
        raise RuntimeError("the main module's variables are not tracked")
    del sys.modules["gc"]


def gather_pages(ctypes):
    """Leaves the end of the process less to give back, which is most of what it takes: memory is put into large pages
    where the kernel does so, and the code of libraries is taken in again when it is used."""
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    with _io.open("/proc/self/maps", "rb") as file:
        maps = [line.split() for line in file]
    for fields in maps:
        start, end = (int(edge, 16) for edge in fields[0].split(b"-"))
        # Code that was never written to: its pages come from the file again.
        if fields[1] == b"r-xp" and len(fields) > 5 and b".so" in fields[5] and b"libc.so" not in fields[5]:
            advise(start, end - start, MADV_DONTNEED)
        elif fields[1] == b"rw-p" and (len(fields) == 5 or fields[5] == b"[heap]"):
            start = -(-start // LARGE_PAGE) * LARGE_PAGE
            end = end // LARGE_PAGE * LARGE_PAGE
            if start < end:
                advise(start, end - start, MADV_COLLAPSE)


LARGE_PAGE = 2 << 20
MADV_DONTNEED = 4
MADV_COLLAPSE = 25


def is_configured(home):
    """Whether files of the program's own decide how an interpreter or a library starts."""
    import site

    return any(
        os.path.lexists(path)
        for path in (
            site.USER_SITE,
            "matplotlibrc",
            home + "/.config/matplotlib/matplotlibrc",
            home + "/.config/matplotlib/stylelib",
            home + "/.matplotlib",
        )
        if path
    )


def receive():
    message = bytearray()
    while chunk := posix.read(CHANNEL, 1 << 16):
        message += chunk
    if not message:
        # Nobody wants this process any more.
        posix._exit(0)
    stdin, count, *fields = bytes(message).split(b"\0")
    count = int(count)
    return stdin == b"1", fields[:count], [tuple(field.split(b"=", 1)) for field in fields[count:-1]]


def take_over(has_stdin):
    """The descriptors as every program has them."""
    posix.close(CHANNEL)
    if has_stdin:
        posix.dup2(STDIN, 0, True)
    posix.close(STDIN)


def be(args, env, has_stdin):
    """Becomes the process that a start with these would have made."""
    data = os.environ._data
    if list(data.items()) != env:
        for name in list(data):
            posix.unsetenv(name)
        data.clear()
        for name, value in env:
            posix.putenv(name, value)
            data[name] = value
    args = [os.fsdecode(arg) for arg in args]
    sys.argv.extend(args)
    sys.orig_argv.extend(args)
    if has_stdin:
        old = sys.stdin
        raw = _io.open(0, "rb", -1, closefd=False)
        raw.raw.name = "<stdin>"
        new = _io.TextIOWrapper(
            raw, encoding=old.encoding, errors=old.errors, newline="\n", line_buffering=old.line_buffering,
            write_through=old.write_through,
        )
        new.mode = "r"
        sys.stdin = sys.__stdin__ = new


def start_anew(args, env):
    """A new interpreter in this process's place."""
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)
    command = [os.fsencode(word) for word in ORIGINAL]
    os.execvpe(command[0], command + args, dict(env))


ORIGINAL = list(sys.orig_argv)


def main():
    del os.environ[HOOK_VARIABLE]
    import _contextvars

    del sys.modules["_contextvars"]
    # A context of its own, since some modules put values into the current one.
    entries, names = _contextvars.copy_context().run(preload)
    stash = Stash(entries)
    for name in names:
        if name in entries:
            stash.closure(entries[name])
    tops = {one.name for one in entries.values() if one.shadowable and not one.parent}
    keep(entries)
    if "ctypes" in entries:
        gather_pages(entries["ctypes"].module)
    posix.write(CHANNEL, READY)
    has_stdin, args, env = receive()
    take_over(has_stdin)
    try:
        home = os.fsdecode(dict(env).get(b"HOME", b""))
        own = tops.intersection(name.partition(".")[0] for name in posix.listdir("."))
        if own or is_configured(home):
            start_anew(args, env)
        be(args, env, has_stdin)
        bootstrap._find_spec = stash.find_spec
    except BaseException:
        start_anew(args, env)


try:
    main()
except BaseException:
    # Without a word: whoever waits for it sees the end, and starts a new one.
    posix._exit(1)
