"""Find kernels in which threads of a program may race: the interpreter, with one thread, cannot.

A kernel's source is followed, calls of helpers too: what it reads and writes in global memory since
the last `tl.debug_barrier()`. Two accesses of one tensor, one of them a write, race unless they are
at the same address, where a thread meets itself; so does a number that all threads read before one
of them overwrites it. Loops are followed twice, branches both ways.
"""

import ast
import importlib.util
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

ACCESSES = {"tl.load": False, "tl.store": True, "tl.atomic_add": True}  # does it write?
Race = tuple[str, str, str]  # a tensor, and the accesses that race for it, the first one first
Terms = tuple[str, ...]  # of a sum; other expressions have a number of their own


@dataclass(frozen=True)
class Value:
    """A name's meaning: the tensors that it points to, and the sum that it is.

    parts: those of a tuple.
    """

    bases: frozenset[str]
    terms: Terms
    parts: tuple["Value", ...] = ()


@dataclass(frozen=True)
class Access:
    """A read or write of a tensor; lone: of one number, not one a thread.

    serves: the tensor whose new value alone depends on what is read.
    """

    base: str
    writes: bool
    terms: Terms
    lone: bool
    line: str
    serves: str = ""

    def races(self, before: "Access") -> bool:
        """Return whether a thread may meet what another did before."""
        if self.base != before.base or not (self.writes or before.writes):
            return False
        if self.lone and before.lone and self.writes:  # one thread writes a number
            return not before.writes and before.serves != self.base
        return self.terms != before.terms


class Names(dict[str, Value]):
    """Names of a function, and where each is read: in writes to some tensor, or elsewhere ("")."""

    def __init__(self, module: str, function: ast.FunctionDef, given: dict[str, Value]) -> None:
        super().__init__(given)
        self.module = module
        self.reads: dict[str, set[str]] = {}
        for node in ast.walk(function):
            if not isinstance(node, ast.Assign | ast.AugAssign | ast.Expr | ast.Return):
                continue
            stored = ""
            if isinstance(node, ast.Expr) and ast.unparse(node).startswith("tl.store("):
                assert isinstance(node.value, ast.Call)
                stored = ast.unparse(node.value.args[0]).split()[0].rpartition(".")[2]
            for one in ast.walk(node):
                if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load):
                    self.reads.setdefault(one.id, set()).add(stored)


class Races:
    """Follows the kernels of a package; a source may stand for that of one of its modules."""

    def __init__(self, package: str, sources: dict[str, str] | None = None) -> None:
        texts = sources_of(package) | (sources or {})
        trees = {name: ast.parse(text) for name, text in texts.items()}
        self.functions = {
            (name, one.name): (name, one)
            for name, tree in trees.items()
            for one in tree.body
            if isinstance(one, ast.FunctionDef)
        }
        own = dict(self.functions)
        for name, tree in trees.items():
            for one in (one for one in tree.body if isinstance(one, ast.ImportFrom)):
                places = {each.name: ((one.module or "").rpartition(".")[2], each.name)
                          for each in one.names}  # fmt: skip
                self.functions |= {(name, n): own[of] for n, of in places.items() if of in own}
        self.kernels = [key for key in own if key[1].endswith("_kernel")]

    def of(self, module: str, kernel: str, tensors: Collection[str]) -> set[Race]:
        """Return which of a kernel's tensors two accesses race for."""
        self.tensors = frozenset(tensors)
        self.open: set[Access] = set()
        self.found: set[Race] = set()
        self.numbers: dict[str, str] = {}  # of expressions
        self.blocks: set[str] = set()  # terms with a number for each thread
        self.serving = ""
        _, function = self.functions[module, kernel]
        names = [one.arg for one in function.args.args]
        given = {n: Value(self.tensors & {n}, (n,)) for n in names}
        self._body(Names(module, function, given), function.body)
        return self.found

    def _body(self, names: Names, body: list[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, ast.For):
                assert isinstance(node.target, ast.Name)
                names[node.target.id] = Value(frozenset(), (node.target.id,))
                for _ in range(2):
                    self._body(names, node.body)
            elif isinstance(node, ast.If):
                self._branch(names, node)
            elif isinstance(node, ast.AugAssign):
                assert isinstance(node.target, ast.Name)
                self._assign(names, node.target, ast.BinOp(node.target, node.op, node.value))
            elif isinstance(node, ast.Assign):
                self._assign(names, node.targets[0], node.value)
            elif isinstance(node, ast.Expr | ast.Return | ast.AnnAssign) and node.value:
                self._follow(names, node.value)

    def _branch(self, names: Names, node: ast.If) -> None:
        """Follow both ways; names and accesses may be those of either afterwards."""
        self._follow(names, node.test)
        opened, known = set(self.open), dict(names)
        self._body(names, node.body)
        self.open, opened = opened, self.open
        known, one = dict(names), known
        names.clear()
        names.update(one)
        self._body(names, node.orelse)
        self.open |= opened
        for name, value in known.items():
            other = names.setdefault(name, value)
            if other != value:
                names[name] = Value(value.bases | other.bases, (f"either {name}",))

    def _assign(self, names: Names, target: ast.expr, value: ast.expr) -> None:
        known = self._value(names, value) if isinstance(value, ast.Name | ast.Tuple) else None
        if isinstance(target, ast.Tuple) and known is not None and known.parts:
            values = [*known.parts]
        elif isinstance(target, ast.Tuple):
            self._follow(names, value)
            terms = [f"{ast.unparse(one)} of {ast.unparse(value)}" for one in target.elts]
            self.blocks |= set(terms)
            values = [Value(frozenset(), (one,)) for one in terms]
        else:
            kept = ast.unparse(target) if ast.unparse(value).startswith("tl.load(") else ""
            values, target = [self._value(names, value, kept)], ast.Tuple([target])
        for one, made in zip(target.elts, values, strict=True):
            assert isinstance(one, ast.Name)
            names[one.id] = made

    def _value(self, names: Names, node: ast.expr, kept: str = "") -> Value:
        if isinstance(node, ast.Name) and node.id in names:
            return names[node.id]
        if isinstance(node, ast.Tuple):
            return Value(frozenset(), (), tuple(self._value(names, one) for one in node.elts))
        self._follow(names, node, kept)
        return Value(self._bases(names, node), self._terms(names, node))

    def _follow(self, names: Names, node: ast.expr, kept: str = "") -> None:
        """Note what an expression reads and writes; kept: the name that it is given."""
        if isinstance(node, ast.Call):
            self._call(names, node, kept)
            return
        for child in _parts(node):
            self._follow(names, child)

    def _call(self, names: Names, node: ast.Call, kept: str) -> None:
        called = ast.unparse(node.func)
        if (names.module, called) in self.functions:
            module, function = self.functions[names.module, called]
            bound = zip(function.args.args, node.args, strict=True)
            given = {arg.arg: self._value(names, one) for arg, one in bound}
            self._body(Names(module, function, given), function.body)
            return
        stored = self._bases(names, node.args[0]) if called == "tl.store" else ()
        before, self.serving = self.serving, next(iter(stored), self.serving)
        for one in _parts(node):
            self._follow(names, one)
        self.serving = before
        if called in ACCESSES:
            self._access(names, node, called, kept)
        if called in ("tl.debug_barrier", "tl.atomic_add"):  # all threads have its result together
            self.open.clear()

    def _access(self, names: Names, node: ast.Call, called: str, kept: str) -> None:
        terms = tuple(sorted(self._terms(names, node.args[0])))
        line = f"{called.removeprefix('tl.')} {ast.unparse(node.args[0])}"
        readers = names.reads.get(kept, set())
        serves = self.serving or (min(readers) if len(readers) == 1 else "")
        lone = not set(terms) & self.blocks
        if called == "tl.atomic_add":  # other programs then read what this one wrote
            self.found |= {(one.base, one.line, line) for one in self.open if one.writes}
        for base in self._bases(names, node.args[0]):
            new = Access(base, ACCESSES[called], terms, lone, line, serves)
            self.found |= {(base, one.line, line) for one in self.open if new.races(one)}
            self.open.add(new)

    def _bases(self, names: Names, node: ast.expr) -> frozenset[str]:
        """Return the tensors that an address points to; what a call returns is none."""
        if isinstance(node, ast.Name):
            return names[node.id].bases if node.id in names else frozenset()
        if isinstance(node, ast.Attribute):  # of an argument with several tensors
            return self.tensors & {node.attr}
        children = () if isinstance(node, ast.Call) else _parts(node)
        return frozenset().union(*(self._bases(names, child) for child in children))

    def _terms(self, names: Names, node: ast.expr) -> Terms:
        """Return the terms of a sum, with what names stand for."""
        if isinstance(node, ast.Name):
            return names[node.id].terms if node.id in names else (node.id,)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            return (node.attr,)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._terms(names, node.left) + self._terms(names, node.right)
        if isinstance(node, ast.Constant):
            return (repr(node.value),)
        parts = [tuple(sorted(self._terms(names, one))) for one in _parts(node)]
        kind = ast.unparse(node.func) if isinstance(node, ast.Call) else _kind(node)
        number = self.numbers.setdefault(f"{kind} {parts}", f"#{len(self.numbers)}")
        if kind == "tl.arange" or any(set(part) & self.blocks for part in parts):
            self.blocks.add(number)
        return (number,)


def sources_of(package: str) -> dict[str, str]:
    """Return the source of each module of a package."""
    found = importlib.util.find_spec(package)
    assert found is not None
    (place,) = found.submodule_search_locations or []
    return {file.stem: file.read_text() for file in Path(place).glob("*.py")}


def _kind(node: ast.expr) -> str:
    """Return what an expression does with its parts."""
    others = (one for one in ast.iter_child_nodes(node) if not isinstance(one, ast.expr))
    return " ".join(type(one).__name__ for one in (node, *others))


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the expressions in one, a call's arguments without what is called."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.keyword):
            yield child.value
        elif isinstance(child, ast.expr) and child is not getattr(node, "func", None):
            yield child
