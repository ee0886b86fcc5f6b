Translate this text into $language. Reply with the translation alone.

$text -> draft

Compare a text with its translation into $language. Name at most three weak points of the translation: what is wrong, missing or stiff. Reply with a short list.

The text: $text
The translation: $draft -> review

Write the translation into $language again, with its weak points mended. Reply with the translation alone.

The text: $text
The translation: $draft
The weak points:
$review -> translation
