"""Word lists that the task families share. ASCII only: the tokenizer maker relies on it."""

from random import Random

ANIMALS = """ant bear bee bird cat cow crab crow deer dog dolphin donkey duck eagle elephant fish fox frog goat goose
hamster hare hedgehog hen horse lamb lion lizard mole monkey moose mouse otter owl panda parrot penguin pig pony puppy
rabbit robin seal sheep snail spider squirrel swan tiger toad turtle whale wolf zebra""".split()

FOODS = """apple banana bean berry bread butter cake carrot cheese cherry corn cookie egg grape honey jam lemon melon milk
mushroom noodle nut onion orange pancake pea peach pear pepper pie plum potato pudding pumpkin rice salad salt soup
sugar tea toast tomato turnip""".split()

THINGS = """bag ball balloon basket bell bicycle blanket boat book bottle bowl box bridge broom brush bucket button
candle chair clock coat coin comb crown cup curtain desk door drum feather fence flag flute fork gate glass glove
hammer hat helmet house jar kettle key kite knife ladder lamp lantern letter map mirror needle oven paddle paper pen
pencil piano picture pillow plate pocket ribbon ring rope sack scarf shell ship shoe shovel spoon stone string table
tent ticket tower train tray umbrella vase violin wagon wheel whistle window wire""".split()

NATURE = """autumn beach branch brook bush cave cliff cloud coast desert dew field fire flower fog forest frost garden grass
hill ice island lake leaf meadow moon moss mountain mud night ocean path pond rain rainbow river road rock root sand
sea seed shadow sky snow spring star storm stream summer sun thunder tree valley water wave wind winter""".split()

COLORS = "red blue green yellow white black brown pink purple orange silver golden gray".split()

OTHER = """actor artist baker captain carpenter cook dentist doctor driver farmer gardener guard hunter judge king knight
lawyer miner nurse painter pilot pirate poet prince queen sailor singer teacher tailor writer angry brave bright broken
calm clean clever cold dark deep dry early empty fast free fresh gentle happy heavy hungry kind large late lazy light
little long loud lucky narrow new old open plain quick quiet rich round sharp short silent simple slow small smooth
soft strong sweet tall thin tiny tired warm wet wide wild wise young answer bottom carry circle climb corner dance
dream friend funny game gift hello holiday join jump kitchen laugh learn listen market minute morning music number
party people place question school second secret sister smile sound square station story street surprise thing
travel village visit voice walk watch week weather window wonder world yard year zero""".split()

WORDS = sorted(set(ANIMALS + FOODS + THINGS + NATURE + COLORS + OTHER))

GIRLS = """Anna Bella Clara Daisy Ella Emma Fiona Grace Hanna Iris Ivy Julia Lena Lily Lucy Maya Mia Mina Nora Olive
Rosa Ruth Sara Sofia Tara Vera Willa Zoe""".split()

BOYS = """Adam Ben Carl Daniel Eli Finn George Hugo Ian Jack Jonas Leo Liam Max Milo Noah Omar Oscar Paul Peter Remy
Sam Simon Theo Tim Toby Victor Will""".split()

_ONSETS = "b c d f g h k l m n p r s t v w z br ch cl dr fl gr pl sh st th tr".split()
_VOWELS = "a e i o u a e i o u ai ea oo".split()
_CODAS = ["", "", "", "n", "r", "l", "s", "t", "m", "k", "nd", "st"]


def pseudo_word(rng: Random, low=4, high=9) -> str:
    """A pronounceable invented word, so that spelling tasks cannot be learned by heart."""
    while True:
        word = "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS)
                       for _ in range(rng.choice((1, 2, 2, 2, 3))))
        if low <= len(word) <= high:
            return word


def any_word(rng: Random) -> str:
    return rng.choice(WORDS) if rng.random() < 0.5 else pseudo_word(rng)
