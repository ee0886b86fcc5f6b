"""Tags of everything that has some, with both services' clients."""

from __future__ import annotations

from control_support import BASE, Served, refused
from waiting import until


def test_agents_aliases_and_knowledge_bases_are_tagged(server: Served) -> None:
    control = server.control
    id = server.ready(tags={"stage": "dev"})
    agent = control.get_agent(agentId=id)["agent"]["agentArn"]
    alias = server.alias(id, tags={"stage": "live"})["agentAliasArn"]
    base = control.create_knowledge_base(**BASE, tags={"stage": "docs"})["knowledgeBase"]
    for arn, stage in ((agent, "dev"), (alias, "live"), (base["knowledgeBaseArn"], "docs")):
        assert control.list_tags_for_resource(resourceArn=arn)["tags"] == {"stage": stage}
        control.tag_resource(resourceArn=arn, tags={"team": "a", "stage": "x"})
        control.untag_resource(resourceArn=arn, tagKeys=["team", "unknown"])
        found = server.runtime.list_tags_for_resource(resourceArn=arn)["tags"]
        assert found == {"stage": "x"}


def test_what_is_not_there_has_no_tags(server: Served) -> None:
    arns = server.world.agents.store.arns
    id = server.ready()
    for arn in (
        arns.agent("NOWHERE123"),
        arns.alias(id, "NOWHERE123"),
        arns.knowledge_base("NOWHERE123"),
        arns.agent(id).replace("us-east-1", "eu-west-1"),
        arns.agent(id).replace("agent/", "flow/"),
    ):
        with refused("ResourceNotFoundException"):
            server.control.list_tags_for_resource(resourceArn=arn)


def test_tags_go_with_what_they_are_of(server: Served) -> None:
    id = server.ready(tags={"a": "b"})
    alias = server.alias(id, tags={"a": "b"})["agentAliasId"]
    server.control.delete_agent_alias(agentId=id, agentAliasId=alias)
    server.control.delete_agent(agentId=id)
    until(lambda: not server.world.documents._rows._file.rows("SELECT * FROM document"))


def test_a_thing_has_fifty_tags_at_most(server: Served) -> None:
    id = server.create()
    arn = server.world.agents.store.arns.agent(id)
    server.control.tag_resource(resourceArn=arn, tags={f"k{n}": "v" for n in range(50)})
    with refused("ServiceQuotaExceededException", "51 tags"):
        server.control.tag_resource(resourceArn=arn, tags={"one": "more"})
    assert len(server.control.list_tags_for_resource(resourceArn=arn)["tags"]) == 50


def test_a_session_is_tagged_through_both_services(server: Served) -> None:
    arn = server.runtime.create_session(tags={"a": "b"})["sessionArn"]
    server.runtime.tag_resource(resourceArn=arn, tags={"c": "d"})
    assert server.runtime.list_tags_for_resource(resourceArn=arn)["tags"] == {"a": "b", "c": "d"}
