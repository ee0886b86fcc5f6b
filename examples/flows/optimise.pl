Write a slogan for $product. Reply with the slogan alone. -> slogan
FOR $round in [1, 2, 3, 4]:
    @score(slogan=$slogan) -> score
    IF ${score.value} >= 0.9:
        @exit(msg="$slogan")
    END
    $slogan >> rejected
    Write another slogan for $product. Reply with the slogan alone.

    What is wrong with the last one: ${score.why}
    These were rejected: $rejected -> slogan
END
@exit(msg="No slogan was good enough; the last one was: $slogan")
