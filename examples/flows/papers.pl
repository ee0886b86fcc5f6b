@find_papers(topic=$topic) -> papers
FOR $paper in $papers:
    Say in one plain sentence what this paper found.

    ${paper.title}
    ${paper.abstract} -> finding
    @note(title=${paper.title}, year=${paper.year}, finding=$finding) >> notes
END
@agent(
    task="Write three sentences about what is known of $topic. Use only these notes. $notes",
    tools=[]
) -> overview
