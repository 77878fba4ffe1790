"""The words by which refusals and questions back are told; all lower case, with straight apostrophes."""

from __future__ import annotations


def _each(modals: str, verbs: str) -> tuple[str, ...]:
    return tuple(f"{modal} {verb}" for modal in modals.split("|") for verb in verbs.split("|"))


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What may stand before a refusal, or as a sentence of its own beside it. None of these says anything.
APOLOGIES = (
    "i'm sorry", "i am sorry", "i'm very sorry", "i'm afraid", "i am afraid", "sorry", "i apologize", "i apologise",
    "my apologies", "apologies", "unfortunately", "as an ai language model", "as an ai assistant", "as an ai model",
    "as an ai", "as a language model", "thank you", "thanks", "thank you for reaching out", "hello", "hi",
    "thank you for your question", "i'd be happy to help", "i would be happy to help", "happy to help",
    "es tut mir leid", "tut mir leid", "leider", "entschuldigung", "als ki", "hallo", "danke",
    "je suis désolé", "je suis désolée", "désolé", "désolée", "malheureusement", "bonjour", "merci",
    "en tant qu'ia", "lo siento", "lo siento mucho", "lamentablemente", "perdón", "hola", "gracias", "como ia",
)  # fmt: skip
JOINERS = ("but", "that", "and", "aber", "mais", "pero")

_CANNOT = "i can't|i cannot|i can not|i'm unable to|i am unable to|i'm not able to|i am not able to|i won't be able to"

# A refusal that may be followed by empty words only.
CLOSED = (
    *_each(_CANNOT, "help|assist|answer|comply|continue|respond|say|do|tell|know|comment"),
    "no answer", "unanswerable", "cannot answer", "can't answer", "cannot help", "can't help", "i don't know",
    "i do not know", "don't know", "i really don't know", "i'm not sure", "i am not sure", "not sure", "no idea",
    "i have no idea", "i'm not certain", "i am not certain", "i have no information", "i don't have that information",
    "i don't have enough information", "i do not have enough information", "i don't have any information",
    "i don't have information", "i do not have information", "there is not enough information",
    "the text does not say", "the passage does not say",
    "ich weiß es nicht", "ich weiss es nicht", "ich weiß nicht", "das weiß ich nicht", "das weiss ich nicht",
    "keine ahnung", "ich kann das nicht beantworten", "das kann ich nicht beantworten",
    "ich kann diese frage nicht beantworten", "diese frage kann ich nicht beantworten", "kann ich nicht beantworten",
    "dabei kann ich nicht helfen", "dabei kann ich ihnen nicht helfen", "dabei kann ich dir nicht helfen",
    "ich kann dabei nicht helfen", "ich kann ihnen dabei nicht helfen", "ich kann dir dabei nicht helfen",
    "damit kann ich nicht helfen", "ich kann ihnen nicht helfen", "ich kann nicht helfen", "kann ich nicht helfen",
    "je ne sais pas", "je ne le sais pas", "je l'ignore", "aucune idée", "je ne peux pas répondre",
    "je ne peux pas vous aider", "je ne peux pas t'aider", "je ne peux pas aider", "je ne suis pas en mesure",
    "je ne peux pas le dire", "no lo sé", "no sé", "no tengo idea", "no tengo información",
    "no tengo suficiente información", "no puedo ayudar", "no puedo ayudarte", "no puedo ayudarle",
    "no puedo responder", "no puedo contestar", "no puedo hacerlo",
)  # fmt: skip

# Words that add nothing after a refusal.
EMPTY = _words(
    "a an the to that this these those it you your me with for about on of any answer answers question questions "
    "request requests help here now right at moment time sorry yet anything something such topic matter please "
    "enough information sure know do say tell i am afraid as an ai language model assistant not based given text "
    "passage context provided in from "
    "das die der den dem diese dieser dieses frage fragen antwort leider nicht ihnen dir dazu darauf "
    "à cette ces ce cela ça vous la le les question répondre aider de d' y sur "
    "con eso esto esa esta ese pregunta a la el lo sobre en ello"
)

# A refusal after which the question may be said again: "I don't know who wrote it".
KNOWS_NOT = (
    "i don't know", "i do not know", "i'm not sure", "i am not sure", "i have no idea", "i'm not certain",
    "i am not certain", "i can't say", "i cannot say", "i can't tell", "i cannot tell",
)  # fmt: skip
# Not "why", "how" and "whether": those take for granted, or suggest, what follows.
INDIRECT = frozenset(("who", "what", "when", "where", "which", "whom", "whose"))
BE = frozenset(("is", "are", "was", "were", "be", "has", "have", "had", "does", "do", "did", "will", "would"))

# A refusal that may name its topic: "I can't provide legal advice on ...".
GIVES_NO = (
    *_each(_CANNOT, "provide|give|give you|offer|share|provide you with|assist with|help with|help you with|discuss"),
    *_each(_CANNOT, "assist you with|answer questions|comment on|engage with|fulfil|fulfill|create|generate|support"),
    "i have no information about", "i have no information on", "i don't have information about",
    "i don't have any information about", "i don't have any information on", "i don't have enough information about",
)  # fmt: skip
TOPICS = _words(
    "advice information details instructions opinion opinions guidance assistance content recommendations answer "
    "answers help request requests topic topics questions"
)

# What makes an open tail say something after all.
ASSERTING = _words(
    "but however although though except unless only than more less fewer most least because since as so therefore if "
    "instead rather probably likely maybe perhaps possibly guess think believe is are was were isn't aren't wasn't "
    "it's that's he's she's will would should must can could may might not never always after before until without "
    "other else until otherwise yes no"
)

# As a last word these may be the answer: option "a", variable "i".
NOT_LAST = frozenset(("a", "i", "y", "an", "the", "right"))

LONGEST_TAIL = 14

# --- questions back ------------------------------------------------------------------------------------------------

# "Which order?", "Quelle commande ?": asks to choose or to name.
CHOOSES = _words(
    "which welche welcher welches welchen quel quelle quels quelles lequel laquelle cuál cuáles qué أي أية"
)
WHICH_IN = _words("in for by on at of from to mit in für pour de para")
# "What size?", where the next word is a thing and no verb.
NAMES = frozenset(("what",))
NOT_A_THING = _words(
    "is are was were if about a an the that means makes would could should will can do does did has have had not "
    "nonsense it's else ist sind war est sont était es son era"
)

# Asks the other side for something; the rest of the question may be anything that asserts nothing.
ASKS_FOR = (
    "do you mean", "did you mean", "do you want me to", "would you like me to", "should i", "shall i", "may i ask",
    "could i ask", "can i ask", "may i have your", "can i have your", "could i have your", "could you clarify",
    "can you clarify", "are you asking", "are you referring to", "are you looking for", "are you talking about",
    "do you prefer", "would you prefer", "what do you mean", "what exactly do you", "what would you like",
    "what do you want", "what do you need", "what are you", "what is your", "what's your", "what are your",
    "what was your", "who is your", "who are you", "where are you", "where do you", "where did you", "where is your",
    "when do you", "when did you", "when was your", "when is your", "when would you", "how would you like",
    "how do you want", "how can i help you", "how may i help you", "how many do you", "how much do you",
    "how old are you", "do you have a", "do you have an", "do you have your", "do you have the",
    *_each("could you|can you|would you|will you|could you please|can you please|would you please",
           "tell me|give me|share|send|send me|provide|specify|confirm your|clarify|explain what|elaborate|rephrase|"
           "repeat|describe|let me know|be more specific|please clarify|please tell me|please specify|please provide"),
    "meinen sie", "meinst du", "können sie mir", "könnten sie mir", "kannst du mir", "könntest du mir",
    "was meinen sie", "was meinst du", "was genau meinen sie", "möchten sie", "soll ich", "wie lautet ihre",
    "wie heißen sie", "wo wohnen sie", "wann haben sie",
    "voulez-vous dire", "que voulez-vous dire", "pouvez-vous préciser", "pourriez-vous préciser",
    "pouvez-vous me dire", "pourriez-vous me dire", "souhaitez-vous que je", "quel est votre", "quelle est votre",
    "peux-tu préciser", "quieres decir", "quiere decir", "se refiere a", "te refieres a", "puede decirme",
    "puedes decirme", "podría decirme", "podrías decirme", "puede especificar", "quiere que",
    "cuál es su", "cuál es tu",
)  # fmt: skip
# "And the date?", after a question that asks.
ASKS_ON = ("and the", "and your", "and which", "and what", "and when", "and where", "or the", "und die", "und das",
           "und der", "und welche", "et la", "et le", "et votre", "y la", "y el", "y su")  # fmt: skip
# Chinese and Japanese: no spaces to go by.
CHOOSES_UNSPACED = ("哪个", "哪個", "哪一", "哪些", "哪座", "どの", "どちら", "どれ")
TELLING_UNSPACED = "，,、不没沒难難"

# What makes a question say something: "Do you mean, since it is Paris, ...?", "isn't it?".
TELLING = _words(
    "that because since although though given considering knowing while but than right correct isn't aren't wasn't "
    "doesn't don't didn't won't can't couldn't wouldn't shouldn't if unless aware agree believe dass weil oder nicht "
    "que parce puisque porque verdad pues never surely obviously course "
    "it's that's he's she's there's i'm i'd i'll you'll"
)
# There "que" is part of asking, not of telling.
TELLING_BUT = frozenset(("que",))

OFFERS = ("is there anything else i can help", "is there anything else i can", "is there something else i can help",
          "how else can i help", "what else can i help", "can i help you with anything else",
          "can i help you with something else", "how can i help you")  # fmt: skip
