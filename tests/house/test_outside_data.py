"""What others write is matched, read and checked by one door for each kind, which bounds it.

`support/regexes.py` matches patterns, `support/documents` reads YAML, `flows/ppe/json_schemas.py`
checks JSON Schemas, and `flows/ppe/regexes.py` runs JavaScript's expressions with a time limit. All
other regular expressions are this project's own: literals, or built from literals and escaped text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache

import house
import pytest

# Who may import a library, and why.
DOORS = {
    "hcl2": {"transfer.terraform.hcl"},
    "re2": {"support.regexes"},
    "regex": {"flows.ppe.regexes"},
    "jsonschema": {"flows.ppe.json_schemas"},
    "yaml": {
        "support.documents",
        "support.documents.syntax",
        "definition.dump",  # writes
        "flows.ppe.data",  # writes
    },
}

# Functions whose patterns are not seen to be literals, and why they may be.
TRUSTED = {
    "agent.evaluation.grounding:": "days and months of the table of the same file",
    "agent.evaluation.grounding:_read_range": "the months of the same table",
    "cli.examples:_set_member": "names of members that the command itself writes",
    "guardrails.pii:_compile_patterns": "the table of the same file",
    "guardrails.pii:_ibans": "lengths of a table of the same file",
    "models.forced_text:_compile_set": "sets of characters of our own grammars",
    "models.tool_calls:": "the names of the tags, in a comprehension",
    "parsers.tags:CallLookahead.__init__": "the grammars of `parsers`",
    "parsers.tags:Rules.__init__": "the grammars of `parsers`",
    "parsers.text_calls:": "the two quotes, in a comprehension",
    "prompts.languages.prompty.markers:Marks.__init__": "the roles of a dialect, in code",
    "prompts.languages.semantic_kernel.content:Filler._read_json": "the tokens of `Tags`",
    "prompts.languages.semantic_kernel.tags:Tags.__init__": "a random number",
    "prompts.markers:Markers.__init__": "the words of a dialect, escaped letter by letter",
    "server.wire.api:Routes.__init__": "paths of botocore's own service models, escaped",
    "server.wire.values:compile_pattern": "patterns of botocore's own service models",
    "transfer.request_members:matches_pattern": "patterns of botocore's own service models",
}

_FUNCTIONS = {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall"}
_FUNCTIONS |= {"finditer", "template"}

Constants = Mapping[str, ast.expr]


def short(module: str) -> str:
    return module.removeprefix("orchestrator.")


def imported(tree: ast.AST) -> Iterator[str]:
    """The top-level packages that a module imports, by whichever function."""
    for node in house.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.Call) and node.args and "import" in function_name(node):
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield name.value.partition(".")[0]


def function_name(node: ast.Call) -> str:
    called = node.func
    return called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")


def wrong_imports(module: str, tree: ast.AST) -> set[str]:
    return {
        name for name in imported(tree) if name in DOORS and short(module) not in DOORS[name]
    } | {
        node.module
        for node in house.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "re"
    }


def constants_of(tree: ast.AST) -> dict[str, ast.expr]:
    """What names are assigned once: of a module, a class or a function."""
    found: dict[str, ast.expr] = {}
    twice: set[str] = set()
    for node in house.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        for target in targets:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            values = getattr(node.value, "elts", [node.value] * len(names))
            for name, value in zip(names, values, strict=False):
                if isinstance(name, ast.Name):
                    twice |= {name.id} & found.keys()
                    found[name.id] = value
    return imported_constants(tree) | {
        name: value for name, value in found.items() if name not in twice
    }


@cache
def module_constants(module: str) -> dict[str, ast.expr]:
    return constants_of(house.modules()[module])


def imported_constants(tree: ast.AST) -> dict[str, ast.expr]:
    """The constants of other modules of the project."""
    found = {}
    for node in house.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in house.modules():
            others = None
            for alias in node.names:
                if alias.name.isupper():
                    others = others or module_constants(node.module)
                    found |= {alias.name: others[alias.name]} if alias.name in others else {}
    return found


def is_own(node: ast.expr, constants: Constants, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a pattern is made of literals, and of texts that are escaped."""

    def own(inner: ast.expr) -> bool:
        return is_own(inner, constants, seen)

    match node:
        case ast.Constant(value=str() | bytes() | int()):
            return True
        case ast.FormattedValue(value=value) | ast.Starred(value=value):
            return own(value)
        case ast.Attribute(value=value, attr="pattern"):
            return own(value)
        case ast.GeneratorExp(elt=elt) | ast.ListComp(elt=elt):
            return own(elt)
        case ast.Name(id=name) if name in constants and name not in seen:
            return is_own(constants[name], constants, seen | {name})
        case ast.Call():
            return is_own_call(node, constants, seen)
    parts = parts_of(node)
    return bool(parts) and all(map(own, parts))


def parts_of(node: ast.expr) -> list[ast.expr]:
    match node:
        case ast.JoinedStr(values=parts):
            return parts
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            return parts
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.IfExp(body=body, orelse=orelse):
            return [body, orelse]
    return []


def is_own_call(node: ast.Call, constants: Constants, seen: frozenset[str]) -> bool:
    called = ast.unparse(node.func)
    if called == "re.escape":
        return True
    if called == "map":
        return ast.unparse(node.args[0]) == "re.escape"
    if called == "re.compile":
        return is_own(node.args[0], constants, seen)
    if isinstance(node.func, ast.Attribute) and node.func.attr in {"join", "format"}:
        return all(is_own(one, constants, seen) for one in (node.func.value, *node.args))
    return False


def foreign_patterns(module: str, tree: ast.Module) -> Iterator[str]:
    """The functions that match a pattern which may be somebody else's."""
    if not any(isinstance(it, ast.Import) and it.names[0].name == "re" for it in house.walk(tree)):
        return
    constants = constants_of(tree)
    for name, scope in scopes(tree):
        for node in calls_in(scope):
            if is_match(node.func) and not is_own(node.args[0], constants):
                yield f"{short(module)}:{name}"


def is_match(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "re"
        and function.attr in _FUNCTIONS
    )


def scopes(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """The functions of a module, innermost last, and the module itself."""
    yield "", tree
    yield from house._functions_in(tree, "")


def calls_in(scope: ast.AST) -> Iterator[ast.Call]:
    """The calls in a scope, without those of functions in it."""
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(child, ast.Call):
            yield child
        yield from calls_in(child)


def test_libraries_that_match_and_read_are_imported_by_their_doors_only() -> None:
    wrong = {
        module: found
        for module, tree in house.modules().items()
        if (found := wrong_imports(module, tree))
    }
    assert wrong == {}
    all_imports = {name for tree in house.modules().values() for name in imported(tree)}
    assert all_imports >= DOORS.keys()


def test_pythons_own_expressions_match_only_patterns_of_this_project() -> None:
    found = {
        place
        for module, tree in house.modules().items()
        for place in foreign_patterns(module, tree)
    }
    assert found == TRUSTED.keys()


def test_yaml_is_never_loaded_by_the_library_itself() -> None:
    loads = {
        (short(module), node.attr)
        for module, tree in house.modules().items()
        for node in house.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr.endswith(("load", "load_all"))
        if isinstance(node.value, ast.Name) and "yaml" in node.value.id
    }
    assert loads == set()


@pytest.mark.parametrize(
    "code",
    [
        "import re\ndef f(pattern): re.compile(pattern)",
        "import re\ndef f(schema): return re.search(schema['pattern'], 'x')",
        "import re\ndef f(name): return re.match(rf'^{name}$', 'x')",
        "import re\ndef f(names): return re.compile('|'.join(names))",
        "import re\ndef f(x):\n p = x\n return re.fullmatch(p, 'x')",
    ],
)
def test_a_foreign_pattern_is_found(code: str) -> None:
    assert list(foreign_patterns("orchestrator.x", ast.parse(code))) == ["x:f"]


@pytest.mark.parametrize(
    "code",
    [
        "import re\nA = 'a'\nB = re.compile(A + f'{A}b')",
        "import re\ndef f(names): return re.compile('|'.join(map(re.escape, names)))",
        "import re\ndef f(name): return re.sub(rf'^{re.escape(name)}$', '', 'x')",
    ],
)
def test_own_patterns_are_no_finding(code: str) -> None:
    assert list(foreign_patterns("orchestrator.x", ast.parse(code))) == []


@pytest.mark.parametrize(
    "code", ["import yaml", "def f():\n from regex import compile", "import_library('jsonschema')",
             "from re import compile"],
)  # fmt: skip
def test_an_import_beside_the_door_is_found(code: str) -> None:
    assert wrong_imports("orchestrator.x", ast.parse(code))


# They run programs and keep their variables, in a process that the kernel has shut in before.
JAILED = {f"actions.code_interpreter.jail.{name}" for name in ("main", "variables")}
UNPICKLERS = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}


def evaluators(tree: ast.AST) -> set[str]:
    """What a module imports or calls that makes objects or runs code of what it reads."""
    calls = (node.func for node in house.walk(tree) if isinstance(node, ast.Call))
    called = {it.id for it in calls if isinstance(it, ast.Name)}
    return {*imported(tree)} & UNPICKLERS | called & {"eval", "exec"}


def test_nothing_that_is_read_is_unpickled_or_evaluated() -> None:
    found = {short(module) for module, tree in house.modules().items() if evaluators(tree)}
    assert found == JAILED
