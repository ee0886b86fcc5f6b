"""Checks that all that a script names is there, before anything of it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from orchestrator.actions.names import did_you_mean
from orchestrator.flows.ppe.built_in import BUILT_IN
from orchestrator.flows.ppe.nodes import Link
from orchestrator.flows.ppe.roles import UnknownRole, find_unknown_roles, suggest_instruction
from orchestrator.flows.ppe.uses import statements_in
from orchestrator.flows.steps import Place

if TYPE_CHECKING:
    from orchestrator.flows.ppe.interpreter import Interpreter


def check(run: Interpreter) -> None:
    """Checks a script's calls, roles, tools and biases; in lenient scripts, roles and tools alone.

    Raises:
        FlowError: Something is not there, or the model cannot have it.
    """
    for link in run.script.calls:
        needed = not run.lenient or link.name in run.script.settings.tools
        if needed and not _is_there(run, link):
            _unknown(run, link)
    run.cast.check()
    for one in find_unknown_roles(run.script, statements_in(run.script.body)):
        if one.meant:
            _refuse_role(run, one)
    if run.lenient:
        return
    for place, written in run.script.biases:
        if not run.known.biases:
            _refuse_bias(run, place, written)


def _is_there(run: Interpreter, link: Link) -> bool:
    name = link.name
    if run.known.name_of(name):
        return True
    if link.instruction:
        imported = name in run.script.settings.imports and bool(run.script_of(name))
        return name in BUILT_IN or imported
    return bool(run.script_of(name)) or (name in BUILT_IN and not link.text)


def _unknown(run: Interpreter, link: Link) -> NoReturn:
    name = link.name
    if link.instruction:
        close = suggest_instruction(name, BUILT_IN)
        run.fail(
            link.place,
            f"there is no instruction ${name}{f'; {close}' if close else ''}; register a Python "
            f"function of that name with tools={{{name!r}: function}}",
            f"没有指令 ${name}；请用 tools={{{name!r}: 函数}} 注册同名的 Python 函数",
        )
    ids = run.library.ids
    there = ", ".join(ids) or "none"
    run.fail(
        link.place,
        f"there is no script {name!r} beside this one{did_you_mean(name, ids)}, and no function; "
        f"there is {there}",
        f"同一文件夹中没有脚本 {name!r}，也没有同名函数；现有: {there}",
    )


def _refuse_role(run: Interpreter, one: UnknownRole) -> NoReturn:
    run.fail(
        one.place,
        f"there is no role {one.role!r}; {one.meant}",
        f"没有角色 {one.role!r}；{one.meant}",
    )


def _refuse_bias(run: Interpreter, place: Place, written: str) -> NoReturn:
    run.fail(
        place,
        f"(({written}:...)) biases tokens, which only embedded models take: hosted ones have no "
        "such setting; leave it out, give choices ([[VAR:|a|b]]), or write "
        f"\\(\\({written}:...\\)\\) for the text",
        f"(({written}:...)) 调整词元概率，仅内嵌模型支持；请删去，或改用选项 [[VAR:|a|b]]",
    )
