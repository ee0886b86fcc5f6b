"""Ten workflow programs as their users write them: long tasks, several lines, files, Chinese."""

from scripts_support import Case

CASES = [
    Case(
        "a team with a task of several lines and spaced arguments",
        {
            "main.pl": '''
@agent(
    type="bambo", 
    task="""
1、先搜索论文；
2、按照['LLM','RAG']分类，结果按{标题：类别}输出;
3、It's $topic that counts.
""", 
    roles = {
        "classifier": "分类专家",
        "writer": "写作专家",
    },
    tools=["paper_search"]
) -> process
''',
            "tools.py": "def paper_search(query: str):\n    return [query]\n",
        },
        ["topic=agents"],
        ["=>@classifier: 一\n=>@Bambo: 完成"],
        "=>@classifier: 一\n=>@Bambo: 完成",
        tools=["paper_search"],
        asked=[
            "1、先搜索论文；\n2、按照['LLM','RAG']分类，结果按{标题：类别}输出;\n3、It's agents"
        ],
    ),
    Case(
        "an agent that explores",
        {
            "main.pl": '@agent(\n    type="explore", \n    task="2023年两城的人口差", \n'
            '    tools=["search"]\n) -> res\n',
            "tools.py": 'def search(query: str):\n    return "8m, 3m"\n',
        },
        [],
        [
            "1. search both",
            [{"toolUse": {"toolUseId": "1", "name": "search", "input": {"query": "both"}}}],
            "5m",
        ],
        "5m",
        tools=["search"],
        asked=["numbered plan", "1. search both", "1. search both"],
    ),
    Case(
        "a prompt from a file in the program's own folder",
        {
            "main.pl": """@code(```python
def read(path):
    with open(path, "r") as f:
        data = f.readlines()
        return "".join(data)
prompt = read("prompts/base.txt")
```) -> prompt

$prompt -> answer
""",
            "prompts/base.txt": "Be short.\nName a tree.",
        },
        ["--files"],
        ["Oak"],
        "Oak",
        asked=["Be short.\nName a tree."],
    ),
    Case(
        "prompts that are made better until they are good",
        {
            "main.pl": """@code(```json
{
    "task": "问题：{{query}}\\n请回答关于$subject的问题",
    "metrics": ["acc", "fluency"]
}
```) -> vars

@meta_prompt(task=${vars.task}) >> prompts
FOR $item in [1, 2, 3]:
    @benchmark(prompt=${prompts[-1]}, metrics=${vars.metrics}, log="out/$item.xlsx") >> acc
    IF ${acc[-1]} > 0.9
       and $item != 3:
        @exit(msg="优化完成: ${prompts[-1]}")
    else:
        @improve(prompt=${prompts[-1]}) >> prompts
    END
END
""",
            "tools.py": "def meta_prompt(task):\n    return task.split('\\n')[1]\n\n\n"
            "def benchmark(prompt, metrics, log):\n"
            "    return 0.95 if log == 'out/2.xlsx' and len(metrics) == 2 else 0.5\n\n\n"
            "def improve(prompt):\n    return prompt + '!'\n",
        },
        ["subject=猫"],
        [],
        "优化完成: 请回答关于猫的问题!",
        tools=["meta_prompt", "benchmark", "improve"],
    ),
    Case(
        "a summary of each paper, with an example of JSON in the prompt",
        {
            "main.pl": """@find(keyword="agentic") >> papers

FOR $paper in $papers:
    请根据标题和摘要，给出总结。
    论文信息如下：
    ${paper.title}

    返回格式如下：
    '{
        "event_name": "名称",
        "country": "国家"
    }' >> summaries
    @save(content=${summaries[-1]}, filename="papers/${paper.title}.md") -> status
END
""",
            "tools.py": "def find(keyword):\n    return [{'title': 'A'}, {'title': 'B'}]\n\n\n"
            "def save(content, filename):\n    return f'{filename}: {content}'\n",
        },
        [],
        ["一", "二"],
        "papers/B.md: 二",
        tools=["find", "save"],
        asked=['A\n\n返回格式如下：\n\'{\n    "event_name"', "B"],
    ),
    Case(
        "several searches, and one list of them",
        {
            "main.pl": """@code(```python
def get_query():
    return "1912年$country的历史事件"
query = get_query()
```) -> query


@search($query) >> results
@search(query="$query 2") >> results

@unique($results) -> found
@save(content=$found, filename="books/raw.json") -> status

""",
            "tools.py": "def search(query):\n    return query\n\n\n"
            "def unique(results):\n    return sorted(set(results))\n\n\n"
            "def save(content, filename):\n    return content\n",
        },
        ["country=中国"],
        [],
        ["1912年中国的历史事件", "1912年中国的历史事件 2"],
        tools=["search", "unique", "save"],
    ),
    Case(
        "conditions over several lines, in all ways",
        {
            "main.pl": """@condition_judge($question, ["weather", "news"]) -> kind
IF ($kind == "weather" and
    $n > 1):
    @f("brackets") -> how
elif $kind == "weather" and \\
     $n == 1:
    @f("backslash") -> how
elif $kind == "weather"
     or $kind == "news":
    @f("operator") -> how
else:
    @f("none") -> how
END
# what was found
@f("by $how") -> told
""",
            "tools.py": "def f(x):\n    return x\n",
        },
        ["question=Rain?", "n=0"],
        ["weather"],
        "by operator",
        tools=["f"],
    ),
    Case(
        "a translation, judged and written again",
        {
            "main.pl": """@code(```json {"target": "中文", "text": "Hi."} ```) -> data
把${data.text}翻译成${data.target} -> first
批评翻译：
$first -> advice
按照 $advice 改写 $first -> final
"""
        },
        [],
        ["放松", "太短", "放轻松"],
        "放轻松",
        asked=["把Hi.翻译成中文", "批评翻译：\n放松", "按照 太短 改写 放松"],
    ),
    Case(
        "numbers worked out in Python, of data that a function gave",
        {
            "main.pl": """@weather("Shanghai") -> sh
@code(```python
def told(temp):
    return f"当前温度是{temp}度, 城市: $city"
result = told(${sh.temperature.current})
```) -> text
@exit(msg="测试完成: $text")
""",
            "tools.py": "def weather(city):\n    return {'temperature': {'current': 31}}\n",
        },
        ["city=上海"],
        [],
        "测试完成: 当前温度是31度, 城市: 上海",
        tools=["weather"],
    ),
    Case(
        "an agent that is called again as a tool",
        {
            "main.pl": """## 角色
你是一个规划师。
- 只返回列表

问题：$question -> plan

# the helper
@agent(task=\'\'\'Work on: $plan\'\'\', tools=[]) -> helper
@helper("more") -> result
"""
        },
        ["question=why"],
        ["a plan", "done", "more done"],
        "more done",
        asked=["## 角色\n你是一个规划师。\n- 只返回列表\n\n问题：why", "Work on: a plan", "more"],
    ),
]
