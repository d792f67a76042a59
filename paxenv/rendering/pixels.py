"""Drawing with NumPy alone: rectangles and a small font."""

import numpy as np

from paxenv.types import Picture

Colour = tuple[int, int, int]

WHITE: Colour = (255, 255, 255)
INK: Colour = (33, 37, 41)
GREY: Colour = (173, 181, 189)
PALE: Colour = (241, 243, 245)
HIGHLIGHT: Colour = (255, 224, 102)
#: The colours of players, in player order, chosen to differ for colour-blind readers.
PLAYERS: tuple[Colour, ...] = (
    (0, 90, 181),
    (196, 60, 20),
    (0, 125, 90),
    (140, 70, 150),
)
COOPERATE: Colour = (64, 140, 200)
DEFECT: Colour = (220, 80, 60)

GLYPH_HEIGHT = 5
GLYPH_WIDTH = 3

# Five rows of three pixels, one octal digit each.
_GLYPHS = {
    " ": "00000", "0": "75557", "1": "26227", "2": "71747", "3": "71717",
    "4": "55711", "5": "74717", "6": "74757", "7": "71122", "8": "75757",
    "9": "75717", "A": "25755", "B": "65656", "C": "34443", "D": "65556",
    "E": "74647", "F": "74644", "G": "34553", "H": "55755", "I": "72227",
    "J": "11152", "K": "55655", "L": "44447", "M": "57755", "N": "65555",
    "O": "25552", "P": "65644", "Q": "25563", "R": "65655", "S": "34216",
    "T": "72222", "U": "55557", "V": "55552", "W": "55775", "X": "55255",
    "Y": "55222", "Z": "71247", "-": "00700", "+": "02720", ".": "00002",
    ",": "00024", "/": "11244", "(": "24442", ")": "21112", ":": "02020",
    "=": "07070", "|": "22222", "?": "71202",
}  # fmt: skip


def blank(height: int, width: int, colour: Colour = WHITE) -> Picture:
    """Returns a picture of one colour, uint8 `[height, width, 3]`."""
    return np.full((height, width, 3), colour, np.uint8)


def fill(
    picture: Picture, top: int, left: int, height: int, width: int, colour: Colour
) -> None:
    """Paints a rectangle; what lies outside the picture is cut off."""
    picture[max(top, 0) : top + height, max(left, 0) : left + width] = colour


def text_width(text: str, scale: int) -> int:
    """Returns the width in pixels of a text."""
    return ((GLYPH_WIDTH + 1) * len(text) - 1) * scale if text else 0


def write(
    picture: Picture,
    top: int,
    left: int,
    text: str,
    colour: Colour = INK,
    scale: int = 3,
) -> None:
    """Writes one line, in capitals; a character without a glyph becomes `?`."""
    for i, character in enumerate(text.upper()):
        rows = _GLYPHS.get(character, _GLYPHS["?"])
        for y, row in enumerate(rows):
            for x in range(GLYPH_WIDTH):
                if int(row) >> (GLYPH_WIDTH - 1 - x) & 1:
                    column = left + (i * (GLYPH_WIDTH + 1) + x) * scale
                    fill(picture, top + y * scale, column, scale, scale, colour)


def write_centred(
    picture: Picture,
    top: int,
    left: int,
    width: int,
    text: str,
    colour: Colour = INK,
    scale: int = 3,
) -> None:
    """Writes one line in the middle of a strip that begins at `left`."""
    start = left + (width - text_width(text, scale)) // 2
    write(picture, top, start, text, colour, scale)
