def closed(day):
    return f"We are closed on {day.title()}."
