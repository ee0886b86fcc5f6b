"""Ten PPE scripts as their users write them: libraries, chains, calls in `$set`, and `?.`."""

from scripts_support import Case

TITLE_INPUT = """\
# orchestrator run titles.ai.yaml --file notes.md
---
type: lib
description: |-
  Finds a title. It can be used in a prompt: @titles(file=notes.md)
input:
  - content
  - file
  - len: {type: number}
len: -1
temperature: 0.01
---
- $if: "this.file"
  then:
    $set:
      fileContent: "[[@file({{file}})]]"
- system: |-
    Propose titles for what you read.
    {%- if len and len > 0 %}

    At most {{len}} letters.
    {%- endif %}

    {{fileContent}}
---
- $if: "this.content || this.fileContent"
  then:
    - $if: "this.content"
      then:
        user: "{{content}}"
    - assistant: "[[titles:max_tokens=len, temperature]]"
    - ---
    - user: "Titles:\\n{{titles}}\\nWhich is best?"
    - assistant: "[[best]]"
  else:
    - assistant: "What do you want a title for?"
"""

CASES = [
    Case(
        "a title, of a file, by a system text and a hole",
        {"main.ai.yaml": TITLE_INPUT, "notes.md": "The ferry was late again."},
        ["file=notes.md"],
        ["Late\nFerries", "Late Ferry"],
        "Late Ferry",
        asked=["Propose titles for what you read.", "Late\nFerries"],
    ),
    Case(
        "a joke that goes on to the translator",
        {
            "main.ai.yaml": '- "Tell a joke about {{about}}, without an explanation."\n'
            '- assistant: "[[joke]]"\n-> translator(target="中文")\n'
        },
        ["about=cats"],
        ["A cat walks in.", "一只猫走进来。"],
        "一只猫走进来。",
        asked=["Tell a joke about cats", "into 中文"],
    ),
    Case(
        "facts as JSON, by the script's own output",
        {
            "main.ai.yaml": """\
---
input:
  - ingredients: {type: array}
  - json: {type: boolean}
output:
  type: array
  items: {type: object, properties: {name: {type: string}}, required: [name]}
---
system: You know recipes.
---
- $if: "this.ingredients?.length"
  then:
    - user: "I have {{ingredients}}."
    - assistant: "[[recipes]]"
    - $if: "this.json"
      then: -> json(output=output)
"""
        },
        ['ingredients=["rice","egg"]', "json=true"],
        ["Fried rice.", '[{"name": "Fried rice"}]'],
        [{"name": "Fried rice"}],
        asked=["I have rice,egg.", "Fried rice."],
    ),
    Case(
        "an outline, checked by another script, and a story",
        {
            "main.ai.yaml": """\
# orchestrator run . "a fairy tale"
---
input:
  - content: {index: 0}
---
- -> outline(content) -> $set('outline') -> checker(content)
- $if: "!LatestResult.good"
  then:
    $ret: "The outline of {{content}} is poor."
- -> story(content=outline)
""",
            "outline.ai.yaml": '---\ninput: [content]\n---\nuser: "Outline {{content}}"\n',
            "checker.ai.yaml": """\
---
input:
  content: {required: true, index: 0}
output:
  type: object
  properties: {good: {type: boolean}}
parameters:
  response_format: {type: json}
---
- system: Judge the outline.
- user: "{{content}}"
""",
            "story.ai.yaml": 'user: "Write: {{content}}"\n',
        },
        ["a fairy tale"],
        ["A deer.", '{"good": true}', "Once upon a time."],
        "Once upon a time.",
        asked=["Outline a fairy tale", "A deer.", "Write: A deer."],
    ),
    Case(
        "a character without a script of that type beside it",
        {
            "main.ai.yaml": """\
---
type: char
name: Dobby
description: You are a brave elf.
---
user: Who are you?
"""
        },
        [],
        ["Dobby is Dobby!"],
        "Dobby is Dobby!",
        asked=["You are Dobby.\nYou are a brave elf."],
    ),
    Case(
        "functions in JavaScript that Python's of the same name carry out",
        {
            "main.ai.yaml": """\
---
files: [intro.md, usage.md]
autoRunLLMIfPromptAvailable: false
---
- !fn |-
  async function choices({files}) {
    return files.map(f => ({name: f, value: f}))
  }
- !fn |-
  function isDir(path) { return false }
- $if: "this.$isDir(__dirname + 'docs') || this.files?.length > 5"
  then:
    - $throw("too many")
- -> $choices(files=files) -> $set('found')
- $echo: "?=found.map(it => it.name.toUpperCase()).join(', ')"
""",
            "tools.py": "def choices(files):\n"
            "    return [{'name': f, 'value': f} for f in files]\n\n\n"
            "def isDir(path):\n    return path.endswith('nothing')\n",
        },
        [],
        [],
        "INTRO.MD, USAGE.MD",
        tools=["choices", "isDir"],
    ),
    Case(
        "a base script with instructions and a file beside it",
        {
            "main.ai.yaml": """\
---
type: instructor
parameters: {temperature: 0.01, max_tokens: -1}
input: [file, lang]
---
- user: |-
    {% if file != 'README.md' %}
    [[@file({{__dirname+file}}, onlyContent=true)]]
    ---
    {% endif %}
    What is it about?
- assistant: "[[summary]]"
- -> trans(lang) -> $set('title')
- $echo: "# {{title}}"
""",
            "instructor.ai.yaml": "---\ntype: type\n---\n- system: You explain files.\n",
            "trans.ai.yaml": '---\ninput: [content, lang]\n---\nuser: "{{content}} in {{lang}}"\n',
            "guide.md": "Press the button.",
        },
        ["file=guide.md", "lang=German"],
        ["A button.", "Ein Knopf."],
        "# Ein Knopf.",
        asked=["Press the button.\n---\nWhat is it about?", "A button. in German"],
    ),
    Case(
        "a loop in a loop that collects, and a template in $echo",
        {
            "main.ai.yaml": """\
---
lines: ''
---
- $for: rows
  as: {value: row, index: at}
  do:
    - $for: row
      as: cell
      do:
        - $set: {lines: "{{lines}}{{at}}{{cell}} "}
- $echo: "{{lines|trim}} ({{rows.length}})"
"""
        },
        ['rows=[["a","b"],["c"]]'],
        [],
        "0a 0b 1c (2)",
    ),
    Case(
        "a question for a function, in a condition, with a template in its arguments",
        {
            "main.ai.yaml": """\
---
Welcome: Hello.
IsReady: Are you ready?
---
- $if: "[[@ask(kind='confirm', content={{Welcome+' '+IsReady}}, value=true)]]"
  then:
    - $set:
        hint: "[Start] {{Welcome}}"
    - -> $echo(content=hint + ' Go!')
  else:
    - $ret: Bye
- -> $print
""",
            "tools.py": "def ask(kind, content, value):\n"
            "    return content == 'Hello. Are you ready?'\n",
        },
        [],
        [],
        "[Start] Hello. Go!",
        tools=["ask"],
    ),
    Case(
        "a calculation that is thought over, and its number taken",
        {
            "main.ai.yaml": """\
---
content: "3 boxes of 12 eggs: how many?"
parameters: {temperature: 0}
---
system: You reason step by step.
---
user: "{{content}}"
assistant: "[[thinking]]"
-> extract-result
""",
            "extract-result.ai.yaml": """\
---
parameters:
  response_format: {type: json}
input: [content]
naturalOutput: false
output:
  type: object
  properties:
    result: {type: [number, string]}
  required: [result]
---
user: |-
  The result in this text:
  {{content}}
""",
        },
        [],
        ["3 times 12 is 36.", '{"result": 36}'],
        {"result": 36},
        asked=["3 boxes", '"required":["result"]'],
    ),
]
