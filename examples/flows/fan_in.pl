FOR $person in ["a nurse", "a shop owner", "a student"]:
    You are $person. Say in two sentences what matters most to you about this plan: $plan -> said
    @code(```python
view = {"who": $person, "what": $said}
```) >> views
END
Several people were asked about a plan: $plan

Their answers:
$views

Name what all of them agree on, and the one point where they differ most. Three sentences at most. -> summary
