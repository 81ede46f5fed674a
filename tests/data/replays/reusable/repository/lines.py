"""Lines of people who wait."""

from collections import deque


class Line:
    def __init__(self, people=()):
        self.people = deque(people)

    def join(self, person):
        self.people.append(person)

    def serve(self):
        return self.people.pop()
