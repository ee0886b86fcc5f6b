def split_name(name):
    verb, group, api = name.split("__")
    return {"verb": verb, "actionGroupName": group, "apiName": api}
