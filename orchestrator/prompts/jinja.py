"""Jinja2 for templates that users write: sandboxed, and bounded in time and size.

A user's template may loop, assign and define macros, which the shipped partials may not
(`orchestrator.prompts.partials`). So here its work is counted (`orchestrator.prompts.work`).
Values are plain data; nothing of a Python object can be reached.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, cast

from jinja2 import Undefined, nodes
from jinja2.environment import Template, TemplateModule
from jinja2.exceptions import TemplateError, TemplateNotFound, TemplateSyntaxError
from jinja2.meta import find_undeclared_variables
from jinja2.runtime import BlockReference, LoopContext, Macro, TemplateReference
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from orchestrator.prompts.jinja_files import IncludedFiles, find_defined, find_stored
from orchestrator.prompts.jinja_limits import (
    OWN_FILTERS,
    call_method,
    count_steps,
    count_work,
    get_work,
    instrument_tree,
    is_straight,
    limit_filters,
    limit_tests,
)
from orchestrator.prompts.jinja_pieces import (
    VALUE,
    OutputText,
    Value,
    join_output,
    make_output,
    merge_pieces,
)
from orchestrator.prompts.markers import Piece
from orchestrator.prompts.mistakes import Mistake
from orchestrator.prompts.work import MOST_CHARS, STEP, Refused, Work
from orchestrator.support.spelling import find_close
from orchestrator.support.user_code import find_innermost

_METHODS = {
    str: frozenset(
        "strip lstrip rstrip upper lower title capitalize split splitlines startswith endswith "
        "replace join count find".split()
    ),
    dict: frozenset(("items", "keys", "values", "get")),
    list: frozenset(("index", "count")),
}
_LOOP = frozenset(
    "first last index index0 revindex revindex0 length depth depth0 cycle changed previtem "
    "nextitem".split()
)
_MOST_BITS = 4096
# What Python and Jinja2 call the classes of our texts.
_OUR_TEXTS = re.compile(
    rf"(?<!attribute ['\"])(?<=['\"])(?:{re.escape(Value.__module__)}\.)?"
    "(?:Value|OutputText)(?=['\"]| object)"
)
# The names and constants that the author of the rendering's template wrote.
_written: ContextVar[frozenset[str]] = ContextVar("written", default=frozenset())


def _hide_value(name: Any) -> Any:
    """A name as a mistake may tell it: not one that a value says, or makes."""
    return name if str(name) in _written.get() else "…"


def _find_written(tree: nodes.Template) -> set[str]:
    names = {one.attr for one in tree.find_all(nodes.Getattr)}
    names |= {str(one.value) for one in tree.find_all(nodes.Const)}
    return names.union(*[name.split(".") for name in names])  # of map(attribute="a.b")


def _spreads_names(tree: nodes.Template) -> bool:
    """Whether a call has `**value`, so that Python's errors may tell names that the value has."""
    calls: Iterator[Any] = tree.find_all((nodes.Call, nodes.Filter, nodes.Test))
    return any(one.dyn_kwargs is not None for one in calls)


class Jinja(ImmutableSandboxedEnvironment):
    """An environment for users' templates."""

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self, finalize: Callable[[Any], Any] | None = None, **options: Any) -> None:
        """`finalize` gives the text of `{{ value }}`; the options are those of Jinja2."""
        self._text = finalize or str
        super().__init__(finalize=self._finalize_value, autoescape=False, **options)
        self.globals = {name: self.globals[name] for name in ("range", "namespace", "dict")}
        self.filters = cast(Any, limit_filters(self.filters))
        self.filters.update(OWN_FILTERS)
        self.tests = cast(Any, limit_tests(cast(Any, self.tests)))
        self.concat = join_output  # type: ignore[method-assign]
        self.files = IncludedFiles()
        self._included: dict[str, tuple[Template, int]] = {}  # and what each costs
        self._steps = 0

    def with_files(self, folder: Path | None, prepare: Callable[[str], str] = str) -> Jinja:
        """The same for one template, which may include the files of this folder.

        `prepare` changes their texts before they are parsed.
        """
        made = self.overlay()
        made.files = IncludedFiles(folder, prepare)
        made._included = {}
        return made

    # A rendering knows who wrote which piece: the author wrote the texts between the tags, which
    # are marked when the template is compiled; all other output is of values. No text is searched
    # to find that out, so no value can pass for the author's, such as a role's mark.
    def _finalize_value(self, value: Any) -> OutputText:
        """The output of `{{ value }}`."""
        if isinstance(value, OutputText):
            return value
        if isinstance(value, Iterator):
            raise Refused("a filter's items are printed one by one, or with |list or |join")
        get_work().measure(value)
        # An undefined value may raise here, with the name that is missing.
        text = str(self._text(value))
        return make_output(text, [(value.origin if isinstance(value, Value) else VALUE, text)])

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        return instrument_tree(super()._parse(source, name, filename))

    def getattr(self, obj: Any, attribute: str) -> Any:
        """A member of data, or one of the few methods that data has here."""
        if isinstance(obj, LoopContext):
            return getattr(obj, attribute) if attribute in _LOOP else self.undefined(name=attribute)
        if isinstance(obj, Namespace):
            missing = self.undefined(name=attribute)
            return missing if attribute.startswith("_") else getattr(obj, attribute, missing)
        if isinstance(obj, TemplateModule):  # of import
            missing = self.undefined(name=attribute)
            return missing if attribute.startswith("_") else getattr(obj, attribute, missing)
        if isinstance(obj, TemplateReference):  # `self`, which has the blocks
            try:
                return obj[attribute]
            except KeyError:
                return self.undefined(name=attribute)
        if isinstance(obj, tuple) and attribute in getattr(obj, "_fields", ()):  # of groupby
            return getattr(obj, attribute)
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        for kind, methods in _METHODS.items():
            if isinstance(obj, kind) and attribute in methods:
                return getattr(obj, attribute)
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """An item of data."""
        if isinstance(obj, Undefined):
            return obj[argument]  # raises, with the name that is missing
        try:
            if isinstance(obj, Mapping | list | tuple | str):
                if isinstance(argument, tuple):
                    get_work().measure(argument)
                return obj[argument]
        except (LookupError, TypeError):
            pass
        return self.undefined(obj=obj, name=_hide_value(argument))

    def call_filter(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Calls a filter that is named when the template runs, as in `map(name)`."""
        if name not in self.filters:
            raise Refused(f"there is no filter {_hide_value(name)!r}")
        return super().call_filter(name, *args, **kwargs)

    def call_test(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Calls a test that is named when the template runs, as in `select(name)`."""
        if name not in self.tests:
            raise Refused(f"there is no test {_hide_value(name)!r}")
        return super().call_test(name, *args, **kwargs)

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls macros, the globals, and data's few methods."""
        work = get_work()
        if isinstance(__obj, Macro):
            return __context.call(__obj, *args, **kwargs)
        if isinstance(__obj, BlockReference):  # of `super()` and `self.block()`
            work.spend(2 * STEP + __self._steps)
            return __obj()
        # Jinja2's compiled code adds these to every call in a loop or a block.
        for one in ("_loop_vars", "_block_vars"):
            kwargs.pop(one, None)
        owner, name = getattr(__obj, "__self__", None), getattr(__obj, "__name__", "")
        for one in (*args, *kwargs.values()):
            work.measure(one)
        if isinstance(owner, LoopContext) and name in ("cycle", "changed"):
            return __obj(*args, **kwargs)
        if any(__obj is one for one in __self.globals.values()):
            return __obj(*args, **kwargs)
        if any(isinstance(owner, kind) and name in it for kind, it in _METHODS.items()):
            return call_method(work, owner, __obj, args, kwargs)
        if isinstance(__obj, Undefined):
            __obj()  # raises, with the name that is missing
        what = "text" if isinstance(__obj, str) else type(__obj).__name__
        raise Refused(f"a {what} cannot be called here")

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Arithmetic, with numbers and texts that stay small."""
        sizes = [len(it) for it in (left, right) if isinstance(it, str | list | tuple)]
        if operator == "%" and isinstance(left, str):
            raise Refused("texts are not formatted with '%' here; use {{ }}")
        if operator == "*" and sizes:
            raise Refused("texts and lists cannot be multiplied here")
        if operator == "*" and _bits(left) + _bits(right) > _MOST_BITS:
            raise Refused("the number is too large")
        if operator == "**" and not (abs(left) < 1_000_000 and abs(right) < 64):
            raise Refused("the power is too large")
        if sum(sizes) > MOST_CHARS:
            raise Refused(f"a text has more than {MOST_CHARS} characters")
        get_work().spend(sum(sizes))
        return super().call_binop(context, operator, left, right)

    def parse_template(self, source: str) -> nodes.Template:
        """The tree of a template."""
        with _mistakes():
            tree = self.parse(source)
            self._check_names(tree)
        self.files.read(self, tree)
        return tree

    def parse_file(self, text: str, name: str, file: str) -> nodes.Template:
        """The tree of a file that a template includes."""
        with _mistakes(file):
            tree = self.parse(text, name, file)
            self._check_names(tree)
        return tree

    def find_undeclared(self, tree: nodes.Template) -> set[str]:
        """The names that a template and its files read and do not set, without the globals."""
        files = self.files.found.values()
        with _mistakes():
            # Blocks see what stands above them, which Jinja2's own search does not know.
            names = find_undeclared_variables(tree) - find_defined(tree)
            inner = {
                name for it in files if it.shares for name in find_undeclared_variables(it.tree)
            }
        # A file may read what the template sets around it, such as a loop's item.
        stored = set[str]().union(*map(find_stored, (tree, *(it.tree for it in files))))
        return (names | (inner - stored)) - self.globals.keys()

    def _load_template(self, name: Any, globals: Any) -> Template:
        """A file that is included, which was read with the template."""
        if name not in self._included:
            raise TemplateNotFound(name)  # one that may be missing
        template, steps = self._included[name]
        get_work().spend(STEP + steps)
        return template

    def _check_names(self, tree: nodes.Template) -> None:
        # Jinja2 reports some unknown filters and tests only when they are used, others never.
        if any(one.name in ("filter", "test") for one in tree.find_all(nodes.Test)):
            return  # the template tests for them itself
        kinds = (("filter", nodes.Filter, self.filters), ("test", nodes.Test, self.tests))
        for kind, type, known in kinds:
            for one in sorted(tree.find_all(type), key=lambda it: it.lineno):
                if one.name not in known:
                    names = [it for it in known if it.isidentifier()]
                    close = find_close(one.name, names)
                    meant = f"; did you mean {close!r}?" if close else ""
                    raise TemplateSyntaxError(f"No {kind} named {one.name!r}{meant}", one.lineno)

    def compile_template(
        self, source: str | nodes.Template, *, calls: Collection[str] = ()
    ) -> CompiledTemplate:
        """Compiles a template or its tree.

        `calls` are globals that only say where something stands.
        """
        tree = self.parse_template(source) if isinstance(source, str) else source
        with _mistakes():
            names = frozenset(self.find_undeclared(tree))
            code = self.compile(tree)
            template = self.template_class.from_code(self, code, self.make_globals(None), None)
        straight = is_straight(tree, calls)
        for name, it in self.files.found.items():
            compiled = self._compile_file(name, str(it.path), it.tree)
            self._included[name] = compiled, count_steps(it.tree.body)
        self._steps = count_steps(tree.body) + sum(it for _, it in self._included.values())
        paths = frozenset(str(it.path) for it in self.files.found.values())
        trees = (tree, *(it.tree for it in self.files.found.values()))
        written = frozenset[str]().union(*map(_find_written, trees))
        spreads = any(map(_spreads_names, trees))
        return CompiledTemplate(template, names, straight, written, spreads, paths)

    def _compile_file(self, name: str, file: str, tree: nodes.Template) -> Template:
        with _mistakes(file):
            code = self.compile(tree, name, file)
            return self.template_class.from_code(self, code, self.make_globals(None), None)


@contextmanager
def _mistakes(file: str | None = None) -> Iterator[None]:
    try:
        yield
    except TemplateSyntaxError as error:
        raise Mistake(f"the template is wrong: {error.message}", error.lineno, file) from None
    except RecursionError:
        raise Mistake("the template is nested too deeply", file=file) from None
    except (SyntaxError, ValueError, ArithmeticError, AssertionError, MemoryError) as error:
        # Python's own parser, of too many blocks; a number; a filter of a set block.
        raise Mistake(f"the template is wrong: {error}", file=file) from None


def _bits(value: Any) -> int:
    return value.bit_length() if isinstance(value, int) else 0


class CompiledTemplate:
    """A compiled template, and the names of values that it reads.

    A straight one shows values as they are, and asks of them only whether they are empty.
    """

    def __init__(
        self,
        template: Any,
        names: frozenset[str],
        straight: bool,
        written: frozenset[str],
        spreads: bool,
        files: frozenset[str],
    ) -> None:
        self._template = template
        self._written = written
        self._spreads = spreads
        self._files = files
        self.names = names
        self.straight = straight

    def render(self, values: Mapping[str, Any], work: Work | None = None) -> str:
        """Renders it."""
        return "".join([text for _, text in self.pieces(values, work)])

    def pieces(self, values: Mapping[str, Any], work: Work | None = None) -> list[Piece]:
        """Renders it as pieces: who wrote each, and its text. The values are plain data by name."""
        token = _written.set(self._written)
        try:
            with count_work(work or Work()):
                return merge_pieces(self._template.render(values).pieces)
        except Exception as error:
            message = f"the template cannot be rendered: {self._describe(error)}"
            raise Mistake(message, *self._place_of(error)) from error
        finally:
            _written.reset(token)

    def _describe(self, error: Exception) -> str:
        told = (TemplateError, TypeError, ArithmeticError)
        # Of a call with `**value` Python tells the names that the value has.
        is_told = isinstance(error, told) and not (self._spreads and isinstance(error, TypeError))
        if isinstance(error, Refused) or is_told:
            return _OUR_TEXTS.sub("str", str(error))
        return type(error).__name__  # of any filter; its words may be a value's, so they stay out

    def _place_of(self, error: BaseException) -> tuple[int, str | None]:
        place = find_innermost(error, lambda file: file == "<template>" or file in self._files)
        if place is None:
            return 1, None
        return place[1], place[0] if place[0] in self._files else None
