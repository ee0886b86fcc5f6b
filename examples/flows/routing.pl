@condition_judge($message, ["refund", "delivery", "praise"]) -> topic
IF $topic == "delivery":
    @track(order=$order) -> parcel
    IF ${parcel.days_late} > 0:
        Apologise to a customer whose parcel is ${parcel.days_late} days late; it is now in ${parcel.place}. Two sentences. They wrote: $message -> answer
    else:
        Tell a customer, in one sentence, that the parcel is on time and now in ${parcel.place}. They wrote: $message -> answer
    END
elif $topic == "refund":
    Ask a customer, in one friendly sentence, for a photo of what is wrong, which every refund needs. They wrote: $message -> answer
elif $topic == "praise":
    Thank a customer in one sentence. They wrote: $message -> answer
else:
    @exit(msg="A colleague will write to you about order $order.")
END
