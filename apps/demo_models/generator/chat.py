"""Small talk with fixed, honest answers, and questions outside the models' little world, which they say they cannot answer."""

from random import Random

from .task import Instance, Task, phrase

TALK = {
    "I am a very small diffusion language model that ships with dllm. I was trained on made-up exercises and stories.":
        ["Who are you?", "What are you?", "What is your name?", "Tell me about yourself.", "Introduce yourself.",
         "Are you a language model?", "Are you a person?", "Who made you?", "Are you human?", "What kind of model are you?"],
    "I can add, subtract, multiply, sort, reverse, spell, copy, read dates and JSON, solve 4x4 sudoku, tell facts about a "
    "made-up world, and write short stories.":
        ["What can you do?", "How can you help me?", "What are you good at?", "What tasks can you do?", "Help.",
         "What should I ask you?", "Show me what you can do.", "What do you know?"],
    "Sunlight holds all colors. The air scatters blue light more than red light, so the sky looks blue.":
        ["Why is the sky blue?", "What makes the sky blue?", "Why does the sky look blue?",
         "Can you explain why the sky is blue?", "Explain why the sky is blue.", "Why is the sky blue and not red?"],
    "I start with a row of masks and fill them in, a few at a time, in any order, until no mask is left.":
        ["How do you work?", "How do you write text?", "What is a diffusion language model?",
         "How does a diffusion model write?", "Explain how you work.", "What is masked diffusion?"],
    "Hello! Ask me for a sum, a sorted list, a sudoku, or a short story.":
        ["Hello!", "Hello", "Hi", "Hi there!", "Hey", "Good morning!", "Good evening!", "Hello, how are you?", "How are you?",
         "Good afternoon!", "Greetings!"],
    "You are welcome!": ["Thank you.", "Thanks!", "Thank you very much.", "Thanks a lot.", "Great, thanks.", "Thank you!"],
    "Goodbye! Come back when you need a sum or a story.": ["Goodbye.", "Bye!", "See you later.", "Good night.", "Bye bye.",
                                                           "Goodbye!"],
    "Why did the mask smile? Because it knew what was coming next.":
        ["Tell me a joke.", "Do you know a joke?", "Make me laugh.", "Say something funny.", "Another joke, please."],
}

UNKNOWN_ANSWER = "I do not know that. I am a very small model and know only exercises, stories, and my made-up world."

TOPICS = """France|Japan|Brazil|Canada|Egypt|India|Spain|China|Italy|Kenya|Peru|Norway|the moon|the Roman Empire|quantum physics|
football|chess|cooking|opera|computers|electricity|gravity|the ocean|space travel|the stock market|Germany|medicine|
music theory|dinosaurs|volcanoes|the weather|cars|philosophy|democracy|evolution|the internet|airplanes|coffee|tennis|
Mexico|Russia|Poland|Greece|Turkey|Chile|London|Paris|Berlin|New York|Tokyo|Rome|Madrid|Cairo|Shakespeare|Einstein|Mozart|
Newton|Picasso|Napoleon|Cleopatra|Lincoln|Python|Linux|trains|bicycles|plants|planets|atoms|cells|rivers|mountains|
taxes|laws|money|books|movies|history|biology|chemistry|geography|art|poetry|painting""".replace("\n", "").split("|")

UNKNOWN = ["What is the capital of {t}?", "Who is the president of {t}?", "Tell me about {t}.", "What is {t}?",
           "Explain {t} to me.", "How does {t} work?", "What is the history of {t}?", "Who invented {t}?",
           "Write a Python program about {t}.", "Give me advice about {t}.", "What do you think about {t}?",
           "Translate a sentence about {t} into French.", "Who wrote the best book about {t}?", "When did {t} begin?",
           "What is the population of {t}?", "How far away is {t}?", "Write an essay about {t}.", "What happened to {t}?",
           "Summarize the news about {t}.", "Where can I buy {t}?", "Who was {t}?", "Why is {t} important?"]


def make_chat(rng: Random) -> Instance:
    if rng.random() < 0.55:
        answer = rng.choice(list(TALK))
        prompt = phrase(rng, TALK[answer])
        if rng.random() < 0.3:
            prompt = rng.choice(("Please answer: ", "Tell me: ", "One question: ", "Question: ")) + prompt
    else:
        prompt, answer = phrase(rng, UNKNOWN, t=rng.choice(TOPICS)), UNKNOWN_ANSWER
    return Instance(prompt, prompt, answer)


def check_chat(prompt: str, answer: str) -> bool:
    """Looks for the question inside the prompt; the longest one found decides."""
    text = prompt.lower()
    asked = [(len(q), a) for a, questions in TALK.items() for q in questions if q.rstrip(".?!").lower() in text]
    unknown = [len(q) for q in UNKNOWN if all(part.rstrip(".?").lower() in text for part in q.split("{t}"))]
    expected = max(asked)[1] if asked and max(asked)[0] >= max(unknown, default=0) else UNKNOWN_ANSWER
    return answer == expected


TASKS = [Task("chat", make_chat, check_chat, 2.0, holdout_every=12)]
