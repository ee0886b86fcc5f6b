"""The examples of the two languages' own guides, one test each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flow_support import program, script, scripted

from orchestrator import FlowError, load_flow


def sent(request: Any) -> list[tuple[str, str]]:
    told = [("system", request.system)] if request.system else []
    for message in request.messages:
        told.append((message["role"], "".join(it.get("text", "") for it in message["content"])))
    return told


# Programmable Prompt Engine


def test_immediate_formatting() -> None:
    model = scripted("5")
    flow = script(
        "---",
        'content: "2+3"',
        "---",
        'system: "You are a calculator. Output result only."',
        "# this will be formatted immediately",
        'user: "#{{content}}"',
    )
    assert flow.run(model=model).output == "5"
    asked = [("system", "You are a calculator. Output result only."), ("user", "2+3")]
    assert sent(model.requests[0]) == asked


def test_messages_in_the_front_matter() -> None:
    model = scripted("Dobby is free!")
    flow = script(
        "---",
        "# Below is the Front-matter configuration",
        "prompt:",
        "  description: |-",
        "    You are Dobby in Harry Potter set.",
        "  messages:",
        "    - role: system",
        "      content: {{description}}",
        "---",
        "# Below is the script content",
        "user: Who are you?",
    )
    assert flow.run(model=model).output == "Dobby is free!"
    asked = [("system", "You are Dobby in Harry Potter set."), ("user", "Who are you?")]
    assert sent(model.requests[0]) == asked


def test_messages_in_the_script() -> None:
    model = scripted("Dobby!")
    flow = script(
        "---",
        "prompt:",
        "  # The data source for template",
        "  description: |-",
        "    You are Dobby in Harry Potter set.",
        "---",
        'system: "{{description}}"',
        "user: hi",
    )
    flow.run(model=model)
    assert sent(model.requests[0])[0] == ("system", "You are Dobby in Harry Potter set.")


def test_substitution() -> None:
    model = scripted("28")
    flow = script(
        'system: "You are a calculator. Output result only."',
        'user: "What is 10 + 18?"',
        'assistant: "[[Answer]]"',
        "# Accesses the AI-generated content stored in prompt",
        '# $echo: "?=prompt.Answer"',
    )
    result = flow.run(model=model)
    assert result.output == "28"
    assert result.variables["Answer"] == "28"
    assert len(model.requests) == 1


def test_parameters_of_a_substitution() -> None:
    model = scripted("ha")
    script("user: hi", "assistant: '[[Answer:temperature=0.7]]'").run(model=model)
    assert model.requests[0].inference["temperature"] == 0.7
    model = scripted("ha")
    flow = script("user: hi", "assistant: '[[RESPONSE:temperature=0.01,top_p=0.8]]'")
    assert flow.run(model=model).variables["RESPONSE"] == "ha"
    assert model.requests[0].inference["topP"] == 0.8


@pytest.mark.parametrize("choice", ["[[FRUITS: |apple|apple|orange]]", "[[FRUITS:|apple|orange]]"])
def test_choices(choice: str) -> None:
    result = script("user: Choose.", f"assistant: '{choice}'").run(model=scripted("Orange."))
    assert result.output == "orange"


def test_one_or_two_choices() -> None:
    flow = script("user: Choose.", "assistant: '[[FRUITS:|apple|banana|orange:2]]'")
    assert flow.run(model=scripted("banana, orange")).output == "banana,orange"
    assert flow.run(model=scripted("banana")).output == "banana"


@pytest.mark.parametrize("kind", ["type=random", "random"])
def test_random_choices(kind: str) -> None:
    flow = script("user: Choose.", f"assistant: '[[FRUITS:|apple|banana|orange:{kind}]]'")
    model = scripted()
    assert flow.run(model=model).output in ("apple", "banana", "orange")
    assert model.requests == []


def test_a_script_in_a_text(tmp_path: Path) -> None:
    (tmp_path / "calculator.ai.yaml").write_text("---\ncontent: 0\n---\n$echo: ?=content\n")
    main = tmp_path / "main.ai.yaml"
    main.write_text('user: "#five plus two equals [[@calculator(5+2)]]"\n')
    model = scripted("right")
    assert load_flow(main).run(model=model).output == "right"
    assert sent(model.requests[0]) == [("user", "five plus two equals 7")]


def test_a_file_in_a_text(tmp_path: Path) -> None:
    (tmp_path / "file.ai.yaml").write_text("$echo: ?='content of ' + content\n")
    main = tmp_path / "main.ai.yaml"
    main.write_text(
        "user: |-\n  Generate a summary for the following file:\n  [[@file(file.txt)]]\n"
    )
    model = scripted("short")
    load_flow(main).run(model=model)
    asked = "Generate a summary for the following file:\ncontent of file.txt"
    assert sent(model.requests[0]) == [("user", asked)]


def test_an_instruction_in_a_text() -> None:
    model = scripted("A")
    script("user: 'a [[@$echo(\"hi world\")]] b'").run(model=model)
    assert sent(model.requests[0]) == [("user", "a hi world b")]


def test_functions_in_javascript_are_refused_and_python_s_are_called() -> None:
    lines = [
        "!fn |-",
        "  function inc(n) {",
        "    return n + 1",
        "  }",
        'user: "3 increment 1 is: [[@$inc(3)]]"',
    ]
    model = scripted("4")
    with pytest.raises(FlowError, match=r"tools=\{'inc': function\}") as caught:
        script(*lines).run(model=model)
    assert (caught.value.line in (1, 2), model.requests) == (True, [])
    script(*lines).run(model=model, tools={"inc": lambda n: n + 1})
    assert sent(model.requests[0]) == [("user", "3 increment 1 is: 4")]


def test_a_regular_expression() -> None:
    model = scripted("It is <RESULT>28</RESULT>.", "ok")
    flow = script(
        "user: |-",
        "  Output the result, wrapped in '<RESULT></RESULT>'",
        'assistant: "[[Answer]]"',
        "---",
        'user: "Based on the following content: /<RESULT>(.+)</RESULT>/:Answer"',
    )
    assert flow.run(model=model).output == "ok"
    assert sent(model.requests[1])[-1][1].endswith("Based on the following content: 28")


# The workflow language

LAW = [
    "@code(```json",
    '{"question": "在上海擅长劳动法的律师有哪些呢?",',
    ' "content": "上海擅长劳动法的律师有张律师、李律师。徐律师也擅长劳动法但是在北京。"}',
    "```) -> question",
    '@condition_judge(${question.question}, ["找律师", "找案件"]) -> condition_flag',
]


def test_three_prompts() -> None:
    model = scripted("晴", "诗", "done")
    flow = program(
        "查一下上海的天气 -> climate",
        "根据${climate.status}写一首诗 -> poem",
        "把$poem发到我的邮箱 -> result",
    )
    result = flow.run(model=model)
    assert result.output == "done"
    asked = [sent(one)[-1][1] for one in model.requests]
    assert asked == ["查一下上海的天气", "根据${climate.status}写一首诗", "把诗发到我的邮箱"]


def test_calls_of_functions() -> None:
    flow = program("@serpapi_search($question) -> result", '@serpapi_search("后羿射日") -> other')
    found = flow.run(
        {"question": "q"}, model=scripted(), tools={"serpapi_search": lambda q: f"<{q}>"}
    )
    assert found.variables["result"] == "<q>"
    assert found.variables["other"] == "<后羿射日>"


def test_code_in_python() -> None:
    flow = program(
        "@code(```python",
        "    def add_one(a):",
        "        return a+1",
        "    python_res = add_one($a)",
        "    ```) -> result",
    )
    assert flow.run({"a": 41}, model=scripted()).output == 42


def test_code_that_is_json() -> None:
    flow = program(
        "@code(```json",
        '{"status":"晴天", "humidity":"65%", "wind_speed":"5m/s"}',
        "```) -> weather_schema",
    )
    found = flow.run(model=scripted()).variables["weather_schema"]
    assert found == {"status": "晴天", "humidity": "65%", "wind_speed": "5m/s"}


def test_code_in_words() -> None:
    model = scripted("```python\nresult = 10 + 89\n```")
    assert program("@code(计算一下10+89等于多少) -> result").run(model=model).output == 99
    assert sent(model.requests[0])[-1] == ("user", "计算一下10+89等于多少")


def test_a_judgement() -> None:
    result = program(*LAW).run(model=scripted("找律师"))
    assert result.variables["condition_flag"] == "找律师"


def test_the_exit() -> None:
    flow = program('@exit(msg="不玩啦,退出程序!")', "never -> a")
    assert flow.run(model=scripted()).output == "不玩啦,退出程序!"


def test_the_loop() -> None:
    calls: list[Any] = []
    flow = program(
        "FOR $item in $variable:",
        "    根据$item写一首诗 -> result",
        "    @func1_name($item) -> result1",
        "    @func2_name($result) -> result2",
        "END",
    )
    tools = {"func1_name": calls.append, "func2_name": calls.append}
    result = flow.run({"variable": ["月", "日"]}, model=scripted("诗1", "诗2"), tools=tools)
    assert calls == ["月", "诗1", "日", "诗2"]
    assert result.variables["result"] == "诗2"


BRANCHES = [
    *LAW,
    'IF $condition_flag == "找律师":',
    "    请根据参考信息回答问题:",
    "    ${question.content}",
    "    问题:${question.question}",
    "    ## 限制",
    "    不许捏造不存在的信息 -> result",
    "else:",
    "    @serpapi_search($question) -> result",
    "END",
]


def test_the_branches() -> None:
    model = scripted("找律师", "张律师、李律师")
    tools = {"serpapi_search": lambda question: "found"}
    assert program(*BRANCHES).run(model=model, tools=tools).output == "张律师、李律师"
    asked = sent(model.requests[1])[-1][1]
    assert asked.startswith("请根据参考信息回答问题:\n上海擅长劳动法的律师有")
    assert asked.endswith("## 限制\n不许捏造不存在的信息")
    assert program(*BRANCHES).run(model=scripted("找案件"), tools=tools).output == "found"


def test_the_agent() -> None:
    model = scripted("晴,诗已发送", "again")
    flow = program(
        '@agent(type="auto-decision", '
        'task="查一下上海的天气,根据天气情况写一首诗,并将结果发送到我的邮箱", '
        "tools=[]) -> weather_agent",
        '@weather_agent("北京") -> more',
    )
    result = flow.run(model=model)
    assert result.variables["weather_agent"] == "晴,诗已发送"
    assert result.output == "again"
    assert sent(model.requests[1])[-1] == ("user", "北京")
