"""Facts about a made-up world: towns, the people who live there, and animals that do not exist.

The table is fixed (it does not depend on the training seed), so it can be written into documentation and asked about.
"""

from random import Random

from .task import Instance, Task, phrase

TOWNS = """Belmora Quinta Harrow Tessel Ondry Marvale Pinegate Silverby Dunmoor Lakeside Ferrow Galdon Westrill Oakhollow
Brindle Corvane""".split()
RIVERS = """Tavo Lindle Sorrow Minnow Aster Gray Willow Emberflow Kestrel Longwater Rushing Amber Fennel Morrow Silk
Tumble""".split()
KNOWN_FOR = ["glass bells", "blue honey", "stone bridges", "paper boats", "singing clocks", "wool hats", "sour plums",
             "tall windmills", "black bread", "painted doors", "silver spoons", "kite races", "salt cakes",
             "copper pots", "rose gardens", "night markets"]
PEOPLE = """Tessa Quill|Orin Vale|Mabel Frost|Jasper Reed|Linnea Moss|Corin Hale|Petra Stone|Alden Brook|Wren Carter|
Silas Thorn|Odette Lark|Bram Holloway|Ilsa Penn|Rufus Gray|Nell Marsh|Edwin Pike""".replace("\n", "").split("|")
JOBS = ["mayor", "baker", "clockmaker", "teacher", "doctor", "sailor", "painter", "beekeeper", "carpenter", "singer",
        "gardener", "tailor", "miner", "librarian", "weaver", "postman"]
PETS = ["gray cat", "white goose", "small dog", "green parrot", "old turtle", "brown rabbit", "black crow", "red fox",
        "spotted pony", "yellow canary", "fat hamster", "clever goat", "tame owl", "blue lizard", "lazy snail",
        "quick ferret"]
CREATURES = """glimp tuffle marrowing snoot brindlecat wollop featherfish mudlark lumpet zephyrmouse grizzlet
pondhopper""".split()
CREATURE_FOOD = ["moonlight moss", "river pebbles", "ripe berries", "old paper", "dandelion seeds", "warm sand",
                 "pine cones", "cold soup", "tree bark", "sweet clover", "cheese rinds", "frozen dew"]
CREATURE_HOME = ["hollow trees", "deep wells", "attic rooms", "reed beds", "snowy caves", "hay barns", "sea cliffs",
                 "quiet cellars", "bramble hedges", "warm chimneys", "church towers", "dry ditches"]
CREATURE_COLOR = ["pale blue", "dark red", "bright yellow", "snow white", "deep green", "soft gray", "light brown",
                  "jet black", "rosy pink", "golden", "violet", "silver"]


def build_facts():
    """(question templates, slots, answer) of every fact; the pairings are drawn once with a fixed seed."""
    rng = Random(4)

    def paired(items):
        return rng.sample(items, len(items))

    facts = []

    def fact(answer, *questions):
        facts.append((list(questions), answer))

    for town, river, product in zip(TOWNS, paired(RIVERS), paired(KNOWN_FOR)):
        fact(f"The river {river} runs through {town}.", f"Which river runs through {town}?",
             f"What is the river of {town}?", f"Name the river in {town}.", f"What river flows through {town}?")
        fact(f"{town} lies on the river {river}.", f"Which town lies on the river {river}?",
             f"What town is on the river {river}?", f"Name the town on the river {river}.")
        fact(f"{town} is known for its {product}.", f"What is {town} known for?", f"What is {town} famous for?",
             f"For what is {town} known?", f"Which town is known for its {product}?", f"Where do {product} come from?")
    for person, job, town, pet in zip(PEOPLE, paired(JOBS), paired(TOWNS), paired(PETS)):
        fact(f"{person} lives in {town}.", f"Where does {person} live?", f"In which town does {person} live?",
             f"What town is {person} from?", f"Who lives in {town}?")
        fact(f"{person} is a {job}.", f"What is the job of {person}?", f"What does {person} do for a living?",
             f"What is {person}'s job?", f"Who is the {job}?")
        fact(f"{person} has a {pet}.", f"What pet does {person} have?", f"Which animal does {person} keep?",
             f"Who has a {pet}?", f"Does {person} have a pet?")
    for creature, food, home, color in zip(CREATURES, paired(CREATURE_FOOD), paired(CREATURE_HOME),
                                           paired(CREATURE_COLOR)):
        fact(f"The {creature} eats {food}.", f"What does the {creature} eat?", f"What is the food of the {creature}?",
             f"Which animal eats {food}?", f"What do you feed a {creature}?")
        fact(f"The {creature} lives in {home}.", f"Where does the {creature} live?", f"Where can I find a {creature}?",
             f"Which animal lives in {home}?")
        fact(f"The {creature} is {color}.", f"What color is the {creature}?", f"Which color does a {creature} have?",
             f"What color is a {creature}?")
    return facts


FACTS = build_facts()
ANSWERS = {question.rstrip(".?").lower(): answer for questions, answer in FACTS for question in questions}


def make_fact(rng: Random) -> Instance:
    questions, answer = rng.choice(FACTS)
    prompt = phrase(rng, questions)
    if rng.random() < 0.2:
        prompt = rng.choice(("Please tell me: ", "Tell me: ", "Question: ", "Do you know? ", "One question. ")) + prompt
    return Instance(prompt, prompt, answer)


def check_fact(prompt: str, answer: str) -> bool:
    for lead in (": ", "? ", ". "):
        prompt = prompt.rsplit(lead, 1)[-1]
    return ANSWERS[prompt.rstrip(".?").lower()] == answer


# Every fact must be taught, so what is held out is a wording, not a fact.
TASKS = [Task("facts", make_fact, check_fact, 3.0, holdout_every=12)]
