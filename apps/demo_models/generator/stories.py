"""Short stories from a grammar: a cast, an object, a place and one of ten plots, told in varied words.

The prompt may fix the names, the kind of hero, the object, the place and the event. What it leaves open is free, except that
every hero has one best friend, one favourite thing and so on (`defaults`): words that a story says several times would
otherwise be the least certain ones, which some samplers commit last and together, each with a name of its own. The checker
reads the wishes from the prompt and looks for them in the story, and for what makes a story hang together: two characters,
pronouns that fit them, one description of the object, no sentence twice.
"""

import re
from dataclasses import dataclass
from random import Random

from .lexicon import BOYS, COLORS, GIRLS, pseudo_word
from .task import Instance, Task, phrase

OBJECTS = """ball balloon basket bell blanket boat book bottle box brush bucket candle clock coat coin crown cup drum feather flag
flute glove hammer hat jar kettle key kite ladder lamp lantern letter map mirror necklace paddle pencil picture pillow
ribbon ring rope sack scarf shell shovel spoon stone ticket toy umbrella vase violin wagon whistle""".split()
LOOKS = COLORS + ["old", "small", "tiny", "shiny", "wooden", "magic", "big", "pretty", "round", "new"]

HEROES = {
    "she": ["a little girl", "a young girl", "a clever girl", "a curious girl", "a shy girl"],
    "he": ["a little boy", "a young boy", "a clever boy", "a curious boy", "a shy boy"],
}
ANIMAL_HEROES = [f"a {look} {animal}" for look in ("small", "brave", "gentle", "young", "clever")
                 for animal in ("fox", "mouse", "bear", "rabbit", "hedgehog", "cat", "dog", "turtle", "squirrel", "duck",
                                "wolf", "frog", "pig", "goat", "owl")]

# (name, where things happen, where one goes)
PLACES = [("lake", "by the lake", "to the lake"), ("forest", "in the forest", "into the forest"),
          ("beach", "on the beach", "to the beach"), ("garden", "in the garden", "to the garden"),
          ("market", "at the market", "to the market"), ("hill", "on the hill", "up the hill"),
          ("river", "by the river", "to the river"), ("mill", "near the old mill", "to the old mill"),
          ("meadow", "in the meadow", "to the meadow"), ("harbor", "at the harbor", "to the harbor"),
          ("castle", "near the castle", "to the castle"), ("school", "behind the school", "to the school"),
          ("barn", "in the barn", "to the barn"), ("bridge", "under the bridge", "to the bridge"),
          ("pond", "by the pond", "to the pond"), ("valley", "in the valley", "into the valley")]

BABIES = "duckling kitten puppy lamb chick bunny calf owlet".split()
SKILLS = ["swim", "bake bread", "whistle", "dance", "paint", "ride a bicycle", "sing", "juggle", "play the piano", "skate"]
PLANTS = "pumpkin carrot turnip cabbage melon potato sunflower".split()

LONGEST = 80            # words; keeps every story within a window of 128 tokens

OPENINGS = ["Once upon a time, {kind} named {H} lived {at}.", "There once was {kind} called {H}, who loved to play {at}.",
            "{H} was {kind} who often walked {to}.", "Long ago, {kind} named {H} had a home {at}.",
            "Every morning, {kind} named {H} walked {to}."]
DAYS = ["One day", "One morning", "One sunny day", "One windy afternoon", "One evening", "One cold morning"]


@dataclass(frozen=True)
class Plot:
    clause: str            # "{H} ..." in the prompt
    evidence: str          # a regular expression that the told event matches
    beats: tuple           # each a list of wordings, told in order


PLOTS = [
    Plot("loses {an_object}", r"lost|gone|missing", (
        ["{He} had {an_object} that {he} took everywhere.", "{His} favorite thing was {an_object}.",
         "More than anything, {he} loved {his} {object}."],
        ["{day}, the {thing} was gone.", "{day}, {he} lost the {thing} on the way home.",
         "{day}, {he} saw that the {thing} was missing."],
        ["{He} looked behind every tree and under every stone, but could not find it.",
         "{He} searched everywhere and began to cry.",
         "{He} walked up and down the path, but there was no {thing}."],
        ["{F}, {his} best friend, came to help.", "Then {F} heard {him} and came to help.",
         "{F} saw how sad {he} was and offered to help."],
        ["Together they found the {thing} in the tall grass.", "At last {F} spotted the {thing} in a bird's nest.",
         "They found the {thing} under a bench, covered with leaves."],
        ["{H} thanked {F} and promised to be more careful.", "{H} hugged {F} and held the {thing} tight all the way home."])),
    Plot("gives {an_object} to a friend", r"gift|present", (
        ["{His} friend {F} had been sad for days.", "{His} friend {F} was ill and had to stay in bed.",
         "{His} friend {F} had a birthday soon."],
        ["{H} wanted to make {f_him} smile.", "{H} thought about what {f_he} would like.",
         "{H} wanted to find the right gift for {f_him}."],
        ["{day}, {he} bought {an_object} with all {his} coins.", "{day}, {he} found {an_object} in a little shop."],
        ["{He} put it in a box and carried it to {F}.", "{He} wrapped it in paper and ran to the house of {F}."],
        ["When {F} saw the {thing}, {f_he} began to smile.", "{F} opened it slowly, and then {f_he} laughed with joy."],
        ['"This {thing} is the best gift I ever got," said {F}.', '"What a lovely present," said {F}. "I will keep it forever."'],
        ["That night both of them went to bed happy.", "From then on, {F} and {H} saw each other every day."])),
    Plot("is caught in a storm", r"storm", (
        ["{day}, {he} went out with {his} {object}.", "{day}, {he} took {his} {object} and went for a walk."],
        ["Suddenly dark clouds came, and a storm began.", "Then the sky turned dark, and a great storm broke."],
        ["The wind pulled at the {thing}, but {H} did not let go.",
         "Rain poured down, and {he} hid the {thing} under {his} arm."],
        ['{F} saw {him} from a window and called, "Come inside!"', '"Over here!" called {F} from a doorway.'],
        ["They sat by the warm fire and drank hot tea.", "They ate soup by the fire and listened to the thunder."],
        ["When the storm was over, a rainbow stood in the sky.", "At last the storm passed, and the sun came out again."],
        ["{H} thanked {F} and walked home with the {thing}.", "{H} and {F} went outside and jumped in the puddles."])),
    Plot("meets a lost {baby}", r"{baby}", (
        ["{day}, {he} heard a small cry behind a bush.", "{day}, something moved in the grass."],
        ["It was a lost {baby}, wet and afraid.", "There sat a lost {baby}, shaking with cold."],
        ["{H} put down {his} {object} and picked the {baby} up.", "{H} was carrying {his} {object}, but {he} stopped to help."],
        ["{F} came by and knew where the {baby} lived.", "{He} asked {F}, who knew every animal around."],
        ["Together they carried the {baby} to its mother.", "They walked for an hour and brought the {baby} home."],
        ["The {baby} jumped with joy.", "The {baby} was safe at last."],
        ["After that, {H}, {F}, and the {baby} were friends.", "Since that day, the {baby} visits {H} and {F} every week."])),
    Plot("runs in a race", r"race", (
        ["Each year there was a big race, and the prize was {an_object}.",
         "There was going to be a race, and the winner would get {an_object}."],
        ["{H} practiced every day, even in the rain.", "{H} wanted to win, so {he} ran every morning."],
        ["On the day of the race, {F} was the fastest at first.", "When the race began, {F} took the lead."],
        ["Then {F} fell and hurt {f_his} leg.", "But near the end, {F} tripped over a root and fell."],
        ["{H} stopped and helped {f_him} up.", "{H} could have won, but {he} turned back to help {f_him}."],
        ["They crossed the line together, hand in hand.", "Side by side they came to the finish, and everyone cheered."],
        ["So {H} and {F} shared the {thing}.", "They got the {thing} together and were proud of it."])),
    Plot("brings {an_object} to a friend far away", r"journey|far", (
        ["{His} friend {F} lived far away, behind the mountains.", "{His} friend {F} had moved to a town far away."],
        ["{day}, {H} set out on a journey to bring {f_him} {an_object}.",
         "{day}, {he} packed {an_object} for {F} and began the long journey."],
        ["The bridge was broken, so {he} built a raft.", "A tree had fallen on the road, so {he} climbed over it."],
        ["At night {he} slept under the stars, with the {thing} beside {him}.", "When it got dark, {he} slept in a hollow tree."],
        ["After three days {he} knocked on the door of {F}.", "On the fourth day {he} saw the house of {F}."],
        ['"You came all this way!" said {F}, and {f_he} made hot soup.',
         "{F} could hardly believe it, and {f_he} cried with joy."],
        ["The {thing} still stands on the shelf of {F}.", "They talked until morning, and {F} never forgot that visit."])),
    Plot("hears a strange noise", r"noise", (
        ["One night, {he} heard a strange noise outside.", "One dark night, a strange noise woke {him} up."],
        ['"Who is there?" {he} asked, but nobody answered.', "{He} hid under the blanket, but the noise did not stop."],
        ["So {he} took {his} {object} and went to look.", "At last {he} picked up {his} {object} and opened the door."],
        ["There stood {F}, singing to the moon.", "It was only {F}, who was looking for a lost shoe.",
         "There was {F}, dancing on dry leaves."],
        ["They both laughed until it hurt.", '"You scared me!" said {H}, and then they both laughed.'],
        ["Then they watched the stars together.", "{H} put the {thing} away and made warm milk for two."],
        ["Since then, {H} has not been afraid of the dark.", "After that, no noise could frighten {him} anymore."])),
    Plot("finds {an_object}", r"found", (
        ["{day}, {he} found {an_object} on the ground.", "{day}, {he} found {an_object} behind a fence."],
        ["{F} saw it too and wanted to have it.", '"I saw it first!" shouted {F}.'],
        ["They both pulled at the {thing} and grew angry.", "They argued about the {thing} for a long time."],
        ["Then {H} had a better idea.", "At last {H} took a deep breath."],
        ['"Let us share it," {he} said. "You take it today, and I take it tomorrow."',
         '"We can use it together," {he} said. "That is more fun."'],
        ["{F} agreed, and {f_he} said sorry.", "{F} liked the idea and smiled."],
        ["The {thing} made them the best of friends.", "Since then, {H} and {F} have shared everything."])),
    Plot("learns to {skill}", r"{skill}", (
        ["{He} wanted to learn to {skill}, but it was hard.", "{His} dream was to {skill}, but nobody had shown {him} how."],
        ["The first time {he} tried, everyone laughed.", "{He} tried once, and it went wrong."],
        ['{F} did not laugh. "Try a little every day," {f_he} said.', '"Do not give up," said {F}, and {f_he} stayed to help.'],
        ["So {H} practiced every morning.", "So {he} practiced in the sun and in the rain."],
        ["After a month, {he} could {skill} better than anyone.", "When summer came, {he} could {skill} very well."],
        ["The teacher gave {him} {an_object} as a prize.", "{F} was so proud that {f_he} gave {him} {an_object}."],
        ["{H} still keeps the {thing} next to {his} bed.", "{H} thanked {F} and never stopped practicing."])),
    Plot("grows a giant {plant}", r"giant {plant}", (
        ["In spring, {he} planted a tiny seed.", "{day}, {he} put one seed into the ground."],
        ["{He} watered it every day and sang to it.", "{He} gave it water and kept the birds away."],
        ["By summer, it had become a giant {plant}.", "It grew and grew until it was a giant {plant}, as big as a cart."],
        ["{F} helped {him} pull, and out it came.", "{He} could not move it alone, so {F} came to help."],
        ["They shared it with the whole village.", "There was enough for everyone in the village."],
        ["The people gave {him} {an_object} to say thank you.", "As a thank you, the people gave {him} {an_object}."],
        ["{H} and {F} laughed and planted another seed.", "{H} showed the {thing} to {F}, and they planned the next garden."])),
]


def with_article(words: str) -> str:
    return ("an " if words[0] in "aeiou" else "a ") + words


def pronouns(subject: str, prefix: str = "") -> dict:
    him, his = ("him", "his") if subject == "he" else ("her", "her")
    return {prefix + "he": subject, prefix + "him": him, prefix + "his": his,
            prefix + "He": subject.capitalize(), prefix + "His": his.capitalize()}


def props(rng: Random, hero: str) -> dict:
    """A friend, an object and the particulars of the plots."""
    friend_is = rng.choice(("she", "he"))
    thing = rng.choice(OBJECTS)
    described = f"{rng.choice(LOOKS)} {thing}" if rng.random() < 0.75 else thing
    return {"F": rng.choice([n for n in (GIRLS if friend_is == "she" else BOYS) if n != hero]), **pronouns(friend_is, "f_"),
            "thing": thing, "object": described, "an_object": with_article(described),
            "baby": rng.choice(BABIES), "skill": rng.choice(SKILLS), "plant": rng.choice(PLANTS)}


def defaults(hero: str, pronoun: str) -> dict:
    """What a hero's stories are about unless the prompt says otherwise; heroes of unknown name share it by pronoun."""
    return props(Random(hero if hero in GIRLS + BOYS else pronoun), hero)


FRIEND = ("F", "f_he", "f_him", "f_his", "f_He", "f_His")
OBJECT = ("thing", "object", "an_object")


def cast_and_props(rng: Random, asked: set) -> dict:
    """The slots of a story; `asked` names what the prompt will say: "friend", "object", "event"."""
    hero_is = rng.choice(("she", "he"))
    hero = rng.choice(GIRLS if hero_is == "she" else BOYS)
    kind = rng.choice(ANIMAL_HEROES if rng.random() < 0.4 else HEROES[hero_is])
    if rng.random() < 0.12 and kind in HEROES[hero_is]:      # a name nobody has heard; the kind tells the pronoun
        hero = pseudo_word(rng).capitalize()
    place, at, to = rng.choice(PLACES)
    drawn, fixed = props(rng, hero), defaults(hero, hero_is)
    said = (*(FRIEND if "friend" in asked else ()), *(OBJECT if "object" in asked else ()),
            *(("baby", "skill", "plant") if "event" in asked else ()))
    return {"H": hero, "kind": kind, "place": f"the {place}", "at": at, "to": to, "day": rng.choice(DAYS),
            **pronouns(hero_is), **fixed, **{slot: drawn[slot] for slot in said}}


ASK_PLAIN = ["Write a short story about {H}.", "Tell me a story about {H}.", "Write a story about {kind} named {H}.",
             "Tell me a story about {kind} called {H}."]
ASK_EVENT = ["Write a short story in which {H} {clause}.", "Tell me a story about {kind} named {H} who {clause}.",
             "Write a story about {H}, who {clause}.", "Tell a story about {kind} called {H} who {clause}."]
ASK_FREE = ["Tell me a story.", "Write a short story.", "Write a story.", "Please tell me a short story."]
INCLUDE = ["Include {list}.", "The story should mention {list}.", "Use {list} in the story."]


def joined(items) -> str:
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + (" and " if len(items) == 2 else ", and ") + items[-1]


def draw_wishes(rng: Random, plot: Plot) -> set:
    """What the prompt will say: some of "hero", "event", "friend", "object", "place"."""
    if rng.random() < 0.05:
        return set()
    event = rng.random() < 0.6
    in_event = event and "object" in plot.clause
    said = {"hero"} | ({"event"} if event else set()) | ({"object"} if in_event or rng.random() < 0.5 else set())
    return said | {wish for wish, chance in (("friend", 0.5), ("place", 0.45)) if rng.random() < chance}


def ask(rng: Random, plot: Plot, slots: dict, asked: set) -> str:
    if not asked:
        return phrase(rng, ASK_FREE)
    pseudo = slots["H"] not in GIRLS + BOYS
    templates = ASK_EVENT if "event" in asked else ASK_PLAIN
    if pseudo:
        templates = [t for t in templates if "{kind}" in t]
    clause = plot.clause.format(**slots)
    # The clause goes in through format, never as a template: phrase() formats once.
    in_event = "event" in asked and "object" in plot.clause
    wishes = [slots[slot] for wish, slot in (("friend", "F"), ("object", "an_object"), ("place", "place"))
              if wish in asked and not (wish == "object" and in_event)]
    if not wishes:
        return phrase(rng, templates, clause=clause, **slots)
    rng.shuffle(wishes)
    return rng.choice(templates).format(clause=clause, **slots) + " " + phrase(rng, INCLUDE, list=joined(wishes))


def make_story(rng: Random) -> Instance:
    plot = rng.choice(PLOTS)
    asked = draw_wishes(rng, plot)
    slots = cast_and_props(rng, asked)
    beats = [OPENINGS, *plot.beats]
    story = " ".join(rng.choice(wordings).format(**slots) for wordings in beats)
    if slots["thing"] not in story or len(story.split()) > LONGEST:
        return make_story(rng)                 # a rare telling that never shows the object, or a long one
    prompt = ask(rng, plot, slots, asked)
    # The shortest prompts are so few that none can be spared for the held-out side.
    return Instance(prompt if len(prompt) > 40 else None, prompt, story)


NOT_NAMES = set("""Write Tell Include The Use Please Once Then Together At They Suddenly When It There After Since On So But Each
In By As Side Over Who Let You We That What This From Every Long One More His Her He She I Rain Try Do Come""".split())


def check_story(prompt: str, story: str) -> bool:
    """True if the story grants every wish of the prompt and is consistent in itself."""
    sentences = re.split(r'(?<=[.!?])"? ', story)
    in_prompt = set(re.findall(r"\b[A-Z][a-z]+", prompt)) - NOT_NAMES
    names = set(re.findall(r"\b[A-Z][a-z]+", story)) - NOT_NAMES
    well_formed = (6 <= len(sentences) <= 12 and story.rstrip('"').endswith(".") and len(set(sentences)) == len(sentences)
                   and "  " not in story)
    return (well_formed and in_prompt <= names and len(names) == 2 and pronouns_fit(story, names)
            and grants_things(prompt, story) and grants_event(prompt, story) and object_is_one(story))


def pronouns_fit(story: str, names: set) -> bool:
    words = set(re.findall(r"[a-z]+", story.lower()))
    male, female = words & {"he", "him", "his"}, words & {"she", "her"}
    girls = any(n in GIRLS for n in names) or re.search(r"\bgirl\b", story)
    boys = any(n in BOYS for n in names) or re.search(r"\bboy\b", story)
    return (girls or not female) and (boys or not male)


def grants_things(prompt: str, story: str) -> bool:
    wanted = re.findall(rf"\ban? ((?:(?:{'|'.join(LOOKS)}) )?(?:{'|'.join(OBJECTS)}))\b", prompt)
    places = re.findall(rf"\bthe ({'|'.join(p for p, _, _ in PLACES)})\b", prompt)
    kinds = re.findall(r"\b(?:about|of) (an? [a-z]+ [a-z]+) (?:named|called)", prompt)
    return all(re.search(rf"\b{w}\b", story) for w in wanted + places + kinds)


def grants_event(prompt: str, story: str) -> bool:
    text = prompt.lower()
    for plot in PLOTS:
        fill = {"an_object": r"an? .*?", "baby": f"({'|'.join(BABIES)})", "skill": f"({'|'.join(SKILLS)})",
                "plant": f"({'|'.join(PLANTS)})"}
        asked = re.search(plot.clause.format(**fill), text)
        if asked:
            special = asked[1] if asked.groups() else ""
            return re.search(plot.evidence.format(baby=special, skill=special, plant=special), story) is not None
    return True


def object_is_one(story: str) -> bool:
    """No object is described in two ways."""
    looks = {}
    for look, thing in re.findall(rf"\b({'|'.join(LOOKS)}) ({'|'.join(OBJECTS)})\b", story):
        looks.setdefault(thing, set()).add(look)
    return all(len(seen) == 1 for seen in looks.values())


TASKS = [Task("story", make_story, check_story, 12.0, one_answer=False)]
