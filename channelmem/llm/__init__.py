"""Answers in a language model's words: models, prompts, characters and a daily spend cap. Independent of any chat
platform; `opening.open_responder` is the way in."""
