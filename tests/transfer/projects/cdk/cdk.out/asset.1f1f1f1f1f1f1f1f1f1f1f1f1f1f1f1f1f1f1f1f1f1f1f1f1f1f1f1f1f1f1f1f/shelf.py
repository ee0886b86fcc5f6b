def titles_of(reader):
    return [f"A Field Guide to Moss, lent to {reader}"]
