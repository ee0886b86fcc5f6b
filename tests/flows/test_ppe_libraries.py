"""Where scripts that a script names are looked for, the standard ones, and the files they read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from flow_support import script, scripted, texts

from orchestrator import FlowError, load_flow
from orchestrator.errors import ResourceNotFound


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.ai.yaml").write_text(text)
    return folder


def test_the_search_path_is_beside_then_lib_then_the_users_folder(home: Path) -> None:
    beside, lib = write(home / "beside"), write(home / "lib")
    main = beside / "main.ai.yaml"
    main.write_text("-> json\n")
    folders = [home / "data" / "orchestrator" / "ppe", lib, beside]
    for folder in folders:
        write(folder, json=f"$echo: of {folder.name}\n")
        flow = load_flow(main, libraries=[lib])
        assert flow.run(model=scripted()).output == f"of {folder.name}"
    with pytest.raises(ResourceNotFound, match="there is no folder"):
        load_flow(main, libraries=[home / "nope"])


def test_a_script_of_the_path_that_is_not_named_changes_nothing(home: Path) -> None:
    lib, beside = write(home / "lib", other="$echo: 1\n"), write(home / "beside")
    (beside / "main.ai.yaml").write_text("$echo: '[[@inner]]'\n")
    write(lib, inner="-> third\n", third="$echo: '3'\n")

    def digest() -> str:
        return load_flow(beside / "main.ai.yaml", libraries=[lib]).program.digest

    before = digest()
    write(lib, other="$echo: 2\n")
    assert digest() == before
    write(lib, third="$echo: '4'\n")
    assert digest() != before


def test_functions_are_above_the_standard_scripts() -> None:
    flow = script("$echo: hi", "-> summary")
    assert (
        flow.run(model=scripted(), tools={"summary": lambda content: content + "!"}).output == "hi!"
    )


@pytest.mark.parametrize(
    ("call", "said", "parameters"),
    [
        ("summary(len=20)", ["Summarize", "at most 20 characters"], {}),
        ("titleify", ["one title"], {}),
        ("translator(target='Dutch', lang='English')", ["from English into Dutch"], {}),
        ("json", ["as JSON", "Reply with JSON alone"], {"temperature": 0}),
    ],
)
def test_the_standard_scripts_ask_once(call: str, said: list[str], parameters: Any) -> None:
    model = scripted('"answer"')
    flow = script("$echo: 'A {{text}}'", f"-> {call}")
    output = flow.run(model=model).output
    assert output == ("answer" if call == "json" else '"answer"')
    request = model.requests[0]
    assert texts(request)[-1:] == ["A "] and dict(request.inference) == parameters
    for text in said:
        assert text in request.system


def test_the_standard_scripts_say_what_they_need_at_the_authors_line() -> None:
    with pytest.raises(FlowError, match="titleify needs a text") as caught:
        script("user: hi", "-> titleify(content='')").run(model=scripted("A"))
    assert caught.value.line == 2
    with pytest.raises(FlowError, match="required input 'target' is missing"):
        script("$echo: hi", "-> translator").run(model=scripted())


def test_facts_are_validated_by_the_schema_that_is_passed() -> None:
    head = ["---", "output: {type: object, properties: {a: {type: number}}, required: [a]}", "---"]
    model = scripted("text", '{"a": "x"}', '{"a": 1}')
    flow = script(*head, "user: q", "assistant: '[[r]]'", "-> json(output)")
    assert flow.run(model=model).output == {"a": 1}
    assert "is a required number" in model.requests[1].system


def test_a_character_is_who_its_front_matter_says() -> None:
    model = scripted("Hm.")
    front = [
        "---",
        "type: char",
        "name: Ada",
        "description: Curious.",
        "character: {age: 9, likes: [tea, cake]}",
        "---",
    ]
    script(*front, "user: Who?").run(model=model)
    assert model.requests[0].system == "You are Ada.\nCurious.\nage: 9\nlikes: tea,cake"


def test_a_type_without_its_script_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, teacher="system: T\n", main="---\ntype: techer\n---\nuser: q\n")
    with pytest.raises(FlowError, match=r"inherits from 'techer'.*did you mean 'teacher'"):
        load_flow(tmp_path / "main.ai.yaml")
    assert script("---", "type: lib", "---", "$echo: 1").run(model=scripted()).output == 1


# Files


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "flow"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a-b.md").write_text("hello {{x}} [[@json]]")
    (folder / ".env").write_text("secret")
    (folder / "blob").write_bytes(b"\xff\xfe\x00")
    (folder / "large.txt").write_text("x" * 1_000_001)
    (tmp_path / "outside.md").write_text("secret")
    (folder / "link.md").symlink_to(tmp_path / "outside.md")
    return folder


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("[[@file(sub/a-b.md)]]", "File a-b.md:\n\nhello {{x}} [[@json]]"),
        ("[[@file(sub/a-b.md, onlyContent=true)]]", "hello {{x}} [[@json]]"),
        ("[[@file(content=sub/a-b.md, onlyContent=true)]]", "hello {{x}} [[@json]]"),
        ("[[@file('sub/a-b.md', onlyContent=true)]]", "hello {{x}} [[@json]]"),
        ("[[@file({{__dirname + name}}, onlyContent=true)]]", "hello {{x}} [[@json]]"),
        ("[[@file(name, onlyContent=true)]]", "hello {{x}} [[@json]]"),
    ],
)
def test_a_file_beside_the_script_is_a_value(notes: Path, written: str, text: str) -> None:
    (notes / "main.ai.yaml").write_text(f'user: "{written}"\n')
    model = scripted("ok")
    load_flow(notes / "main.ai.yaml").run({"name": "sub/a-b.md", "x": 1}, model=model)
    assert texts(model.requests[0]) == [text]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("../outside.md", "no such file"),
        ("link.md", "no such file"),
        (".env", "no such file"),
        ("sub", "no such file"),
        ("/etc/hostname", "no such file"),
        ("nope.md", "no such file"),
        ("a\0b", "no path"),
        ("x" * 501, "no path"),
        ("blob", "no text in UTF-8"),
        ("large.txt", "more than 1000000 bytes"),
    ],
)
def test_no_other_file_is_read(notes: Path, path: str, why: str) -> None:
    (notes / "main.ai.yaml").write_text("user: hi\n$set: {t: '[[@file(path)]]'}\n")
    with pytest.raises(FlowError, match=why) as caught:
        load_flow(notes / "main.ai.yaml").run({"path": path}, model=scripted())
    assert caught.value.line == 2
    assert "无法读取文件" in caught.value.message_zh
    with pytest.raises(FlowError, match="no folder is granted"):
        script("$readFile: a.md").run(model=scripted())


def test_a_run_that_goes_on_reads_what_it_read_before(notes: Path) -> None:
    main = notes / "main.ai.yaml"
    main.write_text("$readFile: sub/a-b.md\n$set: {t: '?=LatestResult'}\n$echo: '?=t'\n")
    flow = load_flow(main)
    waits = flow.run(model=scripted(), step=True)
    waits = flow.resume(waits.paused, model=scripted(), mode="step")
    (notes / "sub" / "a-b.md").write_text("changed")
    state = json.loads(json.dumps(waits.paused))
    assert flow.resume(state, model=scripted()).output == "hello {{x}} [[@json]]"


FROM_JAVASCRIPT = "---\nimport: {'./load.js': [%s]}\n---\n$load\n"


def test_functions_that_javascript_would_give_are_registered_by_name(home: Path) -> None:
    beside = write(home / "beside", main=FROM_JAVASCRIPT % "'$load', {other: named}")
    flow = load_flow(beside / "main.ai.yaml")
    tools = {"load": lambda **named: "loaded", "named": lambda: "x"}
    assert flow.run(model=scripted(), tools=tools).output == "loaded"
    with pytest.raises(
        FlowError, match="no instruction \\$load; register a Python function"
    ) as caught:
        flow.run(model=scripted())
    assert caught.value.line == 4
    (beside / "main.ai.yaml").write_text(FROM_JAVASCRIPT % "" + "user: hi\n")
    with pytest.raises(FlowError, match="name the functions that you use of it"):
        load_flow(beside / "main.ai.yaml")


def test_a_script_that_needs_javascript_gives_way_to_the_standard_one(home: Path) -> None:
    beside = write(home / "beside", main="$echo: '[[@file(notes.txt)]]'\n")
    (beside / "notes.txt").write_text("A note.")
    lib = write(home / "lib", file=FROM_JAVASCRIPT % "load")
    flow = load_flow(beside / "main.ai.yaml", libraries=[lib])
    events: list[Any] = []
    assert flow.run(model=scripted(), on_event=events.append).output == "File notes.txt:\n\nA note."
    warned = [it.members["text"] for it in events if it.type == "warning"]
    assert warned == [
        "the script 'file' calls functions that nobody registered: the standard script of its name "
        "is run"
    ]
    tools = {"load": lambda **named: "loaded"}
    assert flow.run(model=scripted(), tools=tools).output == "loaded"
    write(lib, file="$ehco: hi\n")
    with pytest.raises(FlowError, match=r"no instruction \$ehco; did you mean"):
        load_flow(beside / "main.ai.yaml", libraries=[lib]).run(model=scripted())


def test_aliases_of_the_front_matter_are_followed_and_counted() -> None:
    flow = script(
        "---",
        "base: &base {size: 1, tone: kind}",
        "small: {<<: *base, size: 0}",
        "both: [*base, *base]",
        "---",
        '$echo: "?=[small, both.length]"',
    )
    assert flow.run(model=scripted()).output == [{"size": 0, "tone": "kind"}, 2]
    lines = [f"a{at + 1}: &a{at + 1} [{f'*a{at} , ' * 9}]" for at in range(9)]
    with pytest.raises(FlowError, match="more than 20,000 values"):
        script("---", "a0: &a0 [1]", *lines, "---", "user: hi")
    with pytest.raises(FlowError, match="'<<' takes maps"):
        script("---", "a: {<<: 1}", "---", "user: hi")
    with pytest.raises(FlowError, match="aliases are not understood"):
        script("user: &a hi", "assistant: *a")


def test_a_function_that_a_script_declares_as_a_filter_is_a_function() -> None:
    flow = script("- !fn# |-", "    function twice(n) { return 2 * n }", "- $ret: '[[@$twice(4)]]'")
    assert flow.run(model=scripted(), tools={"twice": lambda n: 2 * n}).output == 8
