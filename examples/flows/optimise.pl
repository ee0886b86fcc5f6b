Write a slogan for $product. Reply with the slogan alone. -> slogan
FOR $round in [1, 2, 3, 4]:
    @score(slogan=$slogan) >> scores
    IF ${scores[-1].value} >= 0.9:
        @exit(msg="$slogan")
    END
    Write another slogan for $product. Reply with the slogan alone.

    What is wrong with "$slogan": ${scores[-1].why}
    All that were tried: $scores -> slogan
END
@exit(msg="No slogan was good enough; the last one was: $slogan")
