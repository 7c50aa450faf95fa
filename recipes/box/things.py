"""things.py — made-up names, numbers, addresses, code, placeholders and emoji for noise.py.

Every function takes a random.Random first. Nothing here is a list of real names: the student is to
learn that what it has never seen is copied. Nor may addresses and the like be made of words of one
language alone, or a student translates those of the other one: borrow() gives words of the text.
Numbers, amounts, dates and percentages are the only things that are written differently in the two
languages; they come as {"en": ..., "de": ...}.
"""

import re
import string

# Beginnings, middles and ends of names, by what they sound like.
LOOKS = [
    tuple(part.split() for part in look)
    for look in (
        ("Ash Brad Car Chel Den Ed Far Gar Hart Kel Lang Mar Nor Pem Rad Stan Thorn Wal Win Yar",
         "ber der ing le mer ning ster ving", "bury by field ford ham ley man more ton well worth"),
        ("Alb Bar Burk Dett Eber Falk Ger Hal Küh Läm Mei Ober Pröl Rei Schau Stru Trau Wen Zie",
         "bel del fen gel ker len min ser wal", "bach berg er feld ger hardt hoff lein mann stein"),
        ("Bo Dar Drag Ja Kol Le Mi No Pav Rad Sla Sto To Vla Wi Zdra Zo Że Šim Čer",
         "ba bro da ko la me ni ro sla wi", "čić ek enko ev ić ka kov ová owicz ska ski sław yuk"),
        ("Al Ber Cas Del Fer Gon Her Iba Lo Mon Nuñ Or Pe Qui Ro San To Ur Val Za",
         "ba ca di ga ma na ra sti ta vi", "dez do es ez illa ín ito llo mos na ño res rra zar"),
        ("Beau Bou Cha Du Fon Gau La Le Mon Mou Per Rou Sau Thi Val Vil",
         "be che dre gue li mar nel ri se ver", "bert ce ché dière gnac in let lle mont net rand"),
        ("Ba Bel Ca Co De Fi Gal Lu Man Mo Pa Ri Sca Ta Ve Zan",
         "be ci do fe la li mo na ri sca vi", "bini celli chi etti gno lla lli ni rdi ro tti zzo"),
        ("Ad Ay Bal De Er Gül Iş Kara Me Öz Sel Şa Tan Ul Ya Yıl",
         "a bu de ka la me ra su ya", "can demir dağ er gül han kan lı maz oğlu su tekin türk"),
        ("Ade Aki Bol Chi Di Ek Fo Ike Ka Ma Mba N'Go Ngo Ob Olu Sa Te Uche Wan Zu",
         "ba da fe go ka la mbe nde ri so wa", "do fu ji ka la leke mi nga nwa ola seun tunde we"),
        ("A Chi Fu Ha Hi I Ka Ko Ma Mi Na O Sa Shi Ta Tsu U Ya Yo",
         "chi da ga ka ki ma mo na ra shi ta wa", "bara da hara ki ko moto mura no saki to yama"),
        ("Ab Am Ba Dje Fa Ha Jal Kha Lay Mah Na Qas Ra Sa Ta Wal Yu Za",
         "ba di ha ja la li ma mi ra sa", "ad ah ani awi din em id il im man oud qi san zadeh"),
        ("Á Bú Dö Er Fó Gyö Há Já Kö Lá Mé Ná Ör Pé Szé Tó Var Zsó",
         "bá de go ká le ny ró sze ta", "cs fi ga ház ki kó ly nos ös rei sz ti vári"),
        ("An Ås Berg Dal Eng Fjæl Hå Jen Kjel Lind Mø Nord Ø Ros Sø Sund Thor Ås",
         "der ga he le ne stra vi", "berg dahl gaard heim kvist lund mark ning sen sson strøm"),
    )
]  # fmt: skip
ONSETS = "b br c ch cl d dr f g gl h j k kr l m n p ph pr qu r s sh st t th tr v w x y z".split()
NUCLEI = "a e i o u ae ai ea ee ia io oa ou ue y".split()
CODAS = ["", "", "", "", "d", "k", "l", "m", "n", "nd", "r", "rn", "s", "t", "x"]
FIRMS = "AG;GmbH;Inc.;Ltd;SE;Group;Labs;Systems;Media;Bank;Air;& Co.;Motors;Energy".split(";")
WORDS = (
    "about account admin alpha app archive area article assets auth backup base beta blog book "
    "build cache cart cat client cloud config contact core count course data demo dev device "
    "docs download draft edit error event export faq feed file filter folder form forum guide "
    "help home image import index info input item key lang list load local lock log login mail "
    "main map media menu message model name net new news node note object order output page "
    "parse part path photo plan player post print product profile project query queue read "
    "record release report request result review room root route run sample save score search "
    "send server session set shop show site size sort source start state status store stream "
    "style sync table tag task team temp test text theme time title tool topic track tree type "
    "update upload user value video view web widget window work write aktuell archiv artikel "
    "bericht bild daten frage kurs liste preis seite suche thema"
).split()
TLDS = "com com com org org net de de de at ch eu io dev info co.uk app gov edu fr nl".split()
SUFFIXES = (
    "txt pdf csv json xml yaml ini conf cfg log md html css js ts py c h cpp cs java rs go sh sql "
    "docx xlsx pptx zip tar.gz png jpg svg mp4 exe dll db bak"
).split()
LANGS = "en", "de"
EMOJI = (
    "😀 😃 😄 😁 😆 😅 😂 🤣 😊 😇 🙂 🙃 😉 😍 🥰 😘 😋 😜 🤪 🤔 🤨 😐 😑 😶 😏 😒 🙄 😬 😌 😔 😪 😴 😷 🤒 🤢 🥵 🥶 "
    "😵 🤯 🥳 😎 🤓 😕 😟 🙁 😮 😲 😳 🥺 😨 😰 😢 😭 😱 😞 😓 😩 😫 😤 😡 😠 🤬 😈 💀 💩 👻 👽 🤖 🙈 💋 💕 💔 💖 "
    "❤️ 🧡 💛 💚 💙 💜 🖤 💯 💥 💦 💤 👋 👌 ✌️ 🤞 👈 👉 👆 👇 👍 👎 ✊ 👏 🙌 🤝 🙏 💪 👀 👶 👩‍💻 🤷 🤦 🏃 💃 👑 "
    "🐶 🐱 🐭 🦊 🐻 🐼 🐨 🐯 🦁 🐮 🐷 🐸 🐔 🐧 🦄 🐝 🦋 🐢 🐍 🐙 🐟 🐳 🌸 🌹 🌻 🌲 🍀 🍁 🍎 🍌 🍉 🍓 🍕 🍔 🍟 🍝 🍣 🍰 "
    "🍺 🍷 🍻 🥂 ⚽ 🏀 🏆 🎮 🎵 🎤 🎨 🎬 🚗 🚕 🚌 🚲 🚂 🚀 🚢 🏠 🏥 🌍 🌞 🌙 ⭐ 🌟 ☀️ ⛅ ☔ ❄️ ⚡ 🔥 🌈 🎄 🎈 🎂 "
    "⌚ 📱 💻 📷 💡 📚 💰 💳 ✉️ 📧 📦 📅 📌 📎 ✂️ 🔒 🔑 🔨 ⚙️ 🧪 💊 ✅ ☑️ ❌ ❗ ❓ ⚠️ 🚫 ♻️ ➡️ ⬆️ 🔴 🟢 🆕 🆗 "
    "🇩🇪 🇬🇧 🇺🇸 🇦🇹 🇨🇭 🇫🇷 🇪🇺 👍🏽 🙏🏻"
).split()
FACES = ":) :-) ;) ;-) :( :-( :D :-D :P xD <3 ^^ :/ :o :'( -_- \\o/".split()
# Blocks in which nearly every code point is an emoji; for those that are in no list.
BLOCKS = (0x1F300, 0x1F320), (0x1F330, 0x1F393), (0x1F3A0, 0x1F3C4), (0x1F400, 0x1F43E), \
    (0x1F450, 0x1F4FC), (0x1F600, 0x1F64F), (0x1F680, 0x1F6C5), (0x1F910, 0x1F93A)  # fmt: skip


CODE = (
    "{a} = {n}", "{a} == {b}", "git {w} {b}", "npm run {w}", "cd {p}", "pip install {w}",
    "if ({a} > {n})", "<{w}>", "</{w}>", "{w}::{b}", "&{w};", "std::{w}<{b}>", "${a}", "@{a}",
    "#{w}", "SELECT * FROM {a}", "{a} += {n};", "{a}->{b}", "ls -l {p}", "{a}[{n}]",
    "sudo {w} -{l}", "git {w} --{v} {b}", "{l} = {a} {o} {n}", "{a} {o} {n}", "{a} {o} {b}",
    "for {l} in {a}:", "return {a}[{n}:{m}]", "{a}({l}, {n})", "{w} -{l} {b} --{v}={n}",
    '"{w}": {n}', "{a} => {b}", "{w} | {v}", "!{a}", "{w}:{n}", "*{a}",
)  # fmt: skip
PLACEHOLDERS = (
    "{{0}}", "{{1}}", "{{{n}}}", "{{{a}}}", "{{{a}}}", "{{{{{a}}}}}", "{{{{ {a} }}}}", "%s", "%d",
    "{{{{ {a}.{b} }}}}", "%{n}$s", "%1$d", "%({a})s", "${{{a}}}", "${a}", "<{a}>", "[{u}]", "%{u}%",
    "#{{{a}}}", "@{a}", "%@", ":{a}", "__{u}__", "{{{a}_{b}}}", "{{{a}:.2f}}", "{{{a}.{b}}}", "$1",
    "&{a};", "%i", "{{}}",
)  # fmt: skip


# What stands before and behind the words that places and families are named after.
BEFORE = "Alt Groß Hinter Klein Mittel Neu Nieder Ober Unter Vorder East Great Little North Upper"
BEHIND = (
    "ach au bach berg born brink bruck brunn burg dorf eck feld hagen hausen heim hofen holz horst "
    "kirchen lach moos ried rode see stedt stein tal wald weiler wein bridge brook bury croft dale "
    "field ford gate hill ley mere stone ton wood worth"
)
BEFORE, BEHIND = BEFORE.split(), BEHIND.split()
PLAIN = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})
borrowed = []  # words of the text that is being made noisy


def borrow(words):
    """From now on things are made of these words, too: lower case, of both languages."""
    borrowed[:] = words


def word(rng):
    """A made-up word, or a common one of the kind that file names and addresses are made of, or one
    of the text; without umlauts, as in addresses, but for a few."""
    r = rng.random()
    if r < 0.25:
        return rng.choice(WORDS)
    if r < 0.75 and borrowed:
        made = rng.choice(borrowed)
        if rng.random() < 0.25 and len(made) < 9:
            made += rng.choice(borrowed)
        return made if rng.random() < 0.1 else made.translate(PLAIN)
    return "".join(
        rng.choice(ONSETS) + rng.choice(NUCLEI) + rng.choice(CODAS)
        for _ in range(rng.choice((1, 2, 2, 3)))
    )


def token(rng):
    """Letters and digits without sense, as in links and keys."""
    signs = string.ascii_letters + string.digits + "_-"
    return rng.choice(string.ascii_letters) + "".join(rng.choices(signs, k=rng.randint(3, 10)))


def surname(rng):
    """Mostly one that sounds like some language. The parts alone would make thirty thousand, which
    a student learns by heart instead of learning to copy: half of them get a slip of the pen. Many
    names are made of words that mean something, which is no reason to translate them."""
    r = rng.random()
    if r < 0.25 and borrowed:
        made = rng.choice(borrowed)
        if len(made) < 8 or rng.random() < 0.3:
            made += rng.choice(BEHIND)
        return made.capitalize()
    if r < 0.35:
        starts, middles, ends = rng.choice(LOOKS)
        made = rng.choice(starts) + rng.choice(middles + [""]) + rng.choice(ends + BEHIND)
        return rng.choice(BEFORE) + made.lower() if rng.random() < 0.6 else made
    if r < 0.45:
        return "".join(
            rng.choice(ONSETS) + rng.choice(NUCLEI) + rng.choice(CODAS)
            for _ in range(rng.choice((2, 2, 3)))
        ).capitalize()
    starts, middles, ends = rng.choice(LOOKS)
    middle = rng.choice(middles) if rng.random() < 0.5 else ""
    made = rng.choice(starts) + middle + rng.choice(ends)
    return slipped(rng, made) if rng.random() < 0.5 else made


def slipped(rng, name):
    """The name with a letter changed, added or, if it is long, lost; or two of them."""
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(1, len(name))
        letter = rng.choice("aaeeiioouuäöüéábcdfghklmnprstvwyz")
        if len(name) > 4 and rng.random() < 0.3:
            letter = ""
        name = name[:at] + letter + name[at + rng.choice((0, 1)) :]
    return name


def name(rng):
    """A person: a surname, two names, or more."""
    r = rng.random()
    if r < 0.4:
        return surname(rng)
    if r < 0.8:
        return f"{surname(rng)} {surname(rng)}"
    return rng.choice(
        ("{a}-{b} {c}", "{a} {b}-{c}", "{i}. {b}", "{a} {i}. {b}", "Dr. {a}", "O'{a}", "Mc{a}",
         "{a} van {b}", "{a} von {b}", "{a} de {b}", "{a} al-{b}", "{a} {b} {c}")
    ).format(
        a=surname(rng), b=surname(rng), c=surname(rng), i=rng.choice(string.ascii_uppercase)
    )  # fmt: skip


def place(rng):
    if rng.random() < 0.75:
        return surname(rng)
    ends = "{}ville;{}burg;Bad {};St. {};{} Bay;San {};{}-sur-{};{}stadt;Al-{};New {};{} am See"
    end = rng.choice(ends.split(";"))
    return end.format(surname(rng), surname(rng))


def street(rng):
    """With its number: names of streets are not translated."""
    number = str(rng.randint(1, 300)) + rng.choice(("", "", "", "", "a", "b"))
    if rng.random() < 0.6:
        return f"{surname(rng)}{rng.choice(('straße', 'gasse', 'allee', '-Straße'))} {number}"
    return f"{surname(rng)} {rng.choice(('Street', 'Road', 'Lane', 'Avenue', 'Close'))} {number}"


def firm(rng):
    r = rng.random()
    if r < 0.3:
        return surname(rng)
    if r < 0.55:
        return f"{surname(rng)} {rng.choice(FIRMS)}"
    if r < 0.7:
        return acronym(rng)
    if r < 0.85:
        return camel(rng)
    return rng.choice(("{a} & {b}", "{a}-{b}", "{c} {n}", "{a} {n}", "{c}-{n}")).format(
        a=surname(rng), b=surname(rng), c=acronym(rng), n=rng.randint(2, 9999)
    )


def acronym(rng):
    return "".join(rng.choices(string.ascii_uppercase, k=rng.randint(2, 5)))


def camel(rng):
    first = word(rng)
    return (first if rng.random() < 0.3 else first.capitalize()) + "".join(
        word(rng).capitalize() for _ in range(rng.randint(1, 2))
    )


def identifier(rng):
    r = rng.random()
    words = [word(rng) for _ in range(rng.randint(1, 3))]
    if r < 0.3:
        return camel(rng)
    if r < 0.55:
        return "_".join(words + [word(rng)])
    if r < 0.7:
        return "_".join(words).upper()
    if r < 0.8:
        return "-".join(words + [word(rng)])
    if r < 0.9:
        return words[0] + str(rng.randint(0, 99))
    return words[0]


def code(rng):
    """A name, a call or a short command; between backticks if it has spaces, or by chance."""
    r = rng.random()
    if r < 0.35:
        text = identifier(rng)
    elif r < 0.5:
        text = identifier(rng) + rng.choice(("()", "()", "(0)", f"({word(rng)})", "[]", "(x, y)"))
    elif r < 0.6:
        text = f"{identifier(rng)}.{identifier(rng)}" + rng.choice(("", "()"))
    elif r < 0.7:
        text = "--" + "-".join(word(rng) for _ in range(rng.randint(1, 2)))
        text += rng.choice(("", "", f"={rng.randint(0, 99)}", f" {word(rng)}"))
    else:
        text = rng.choice(CODE).format(
            a=identifier(rng), b=identifier(rng), w=word(rng), v=word(rng), n=rng.randint(0, 9999),
            l=rng.choice(string.ascii_letters), p=path(rng), m=rng.randint(0, 99),
            o=rng.choice("+ - * / // % == != <= >= && || << ^".split()),
        )  # fmt: skip
    return f"`{text}`" if " " in text or rng.random() < 0.5 else text


def hole(rng):
    """A placeholder as programs have them in their messages."""
    return rng.choice(PLACEHOLDERS).format(
        a=word(rng), b=word(rng), u=word(rng).upper(), n=rng.randint(0, 9)
    )


def tag(rng):
    """A key or a button in markup whose text is the same in both languages."""
    return rng.choice(("<kbd>{}</kbd>", "<b>{}</b>", "**{}**", "[{}]", "<code>{}</code>")).format(
        rng.choice(("OK", "Start", "Tab", "F" + str(rng.randint(1, 12)), surname(rng)))
    )


def host(rng):
    parts = [word(rng) for _ in range(rng.choice((1, 1, 1, 2)))]
    return rng.choice(("-", "")).join(parts) + "." + rng.choice(TLDS)


def url(rng):
    parts = []
    for _ in range(rng.choice((0, 1, 1, 2, 2, 3))):
        part = rng.choice("-_-").join(word(rng) for _ in range(rng.choice((1, 1, 2, 3))))
        r = rng.random()
        digits = str(rng.randint(1, 10 ** rng.randint(1, 7)))
        parts.append(part if r < 0.75 else token(rng) if r < 0.85 else digits)
    text = rng.choice(("https://", "https://", "https://", "http://", "www.", "https://www.", ""))
    text += host(rng)
    if not parts and "/" not in text and "www" not in text:
        parts = [word(rng)]
    text += "".join("/" + part for part in parts)
    r = rng.random()
    if r < 0.1:
        text += "." + rng.choice(("html", "php", "pdf", "aspx"))
    elif r < 0.2 and parts:
        key = rng.choice((word(rng), rng.choice("vqpidt")))
        text += f"?{key}={rng.choice((word(rng), token(rng), str(rng.randint(0, 999))))}"
        text += f"&{rng.choice((word(rng), 't', 'n'))}={rng.randint(0, 99)}" * (rng.random() < 0.4)
    elif r < 0.26:
        text += "#" + word(rng)
    elif r < 0.35:
        text += "/"
    return text


def mail(rng):
    user = rng.choice("._-.").join(word(rng) for _ in range(rng.choice((1, 2, 2))))
    return f"{user}{rng.randint(1, 99) if rng.random() < 0.2 else ''}@{host(rng)}"


def file(rng):
    stem = rng.choice("_-_").join(word(rng) for _ in range(rng.choice((1, 1, 2))))
    if rng.random() < 0.2:
        stem = stem.capitalize()
    if rng.random() < 0.2:
        stem += rng.choice(("", "_", "-", "-v")) + str(rng.randint(1, 10 ** rng.randint(1, 4)))
    return f"{stem}.{rng.choice(SUFFIXES)}"


def path(rng):
    parts = [word(rng) for _ in range(rng.randint(1, 3))]
    last = file(rng) if rng.random() < 0.6 else word(rng)
    if rng.random() < 0.3:
        root = rng.choice(("C:\\", "D:\\", "\\\\" + word(rng) + "\\", "C:\\Users\\", "%APPDATA%\\"))
        return root + "\\".join(p.capitalize() for p in parts) + "\\" + last
    root = rng.choice("|/|/usr/|/etc/|/home/|~/|./|../|/var/log/|$HOME/".split("|"))
    if rng.random() < 0.2:
        parts[0] = parts[0].capitalize()
    return root + "/".join(parts) + "/" + last


def identity(rng):
    """What is written on tickets, parcels and invoices: digits, sometimes with letters."""
    r = rng.random()
    if r < 0.35:
        return str(rng.randint(10, 10 ** rng.randint(2, 9)))
    if r < 0.4:
        return f"{rng.randint(1990, 2040)}-{rng.randint(1, 99999):05}"
    if r < 0.5:
        return "0x" + "".join(rng.choices("0123456789ABCDEF", k=rng.choice((4, 8))))
    if r < 0.75:
        return f"{acronym(rng)}-{rng.randint(1, 99999)}"
    if r < 0.85:
        return "".join(rng.choices(string.ascii_uppercase + string.digits, k=rng.randint(5, 10)))
    return "-".join(str(rng.randint(100, 9999)) for _ in range(rng.randint(2, 3)))


def phone(rng):
    digits = lambda n: "".join(rng.choices(string.digits, k=n))  # noqa: E731
    return rng.choice(
        (f"+{rng.randint(1, 99)} {digits(3)} {digits(7)}", f"0{digits(4)} {digits(6)}",
         f"0{digits(3)}/{digits(7)}", f"+{rng.randint(1, 99)}-{digits(3)}-{digits(4)}",
         f"(0{digits(2)}) {digits(4)} {digits(4)}")
    )  # fmt: skip


def version(rng):
    text = ".".join(str(rng.randint(0, 30)) for _ in range(rng.choice((2, 2, 3, 3, 4))))
    return rng.choice(("", "", "", "v")) + text + rng.choice(("", "", "", "-beta", "a", "-rc1"))


def time(rng):
    hour, minute = rng.randint(0, 23), rng.randint(0, 59)
    return both(f"{hour}:{minute:02}", f"{hour}:{minute:02} Uhr")


def both(english, german):
    return {"en": english, "de": german}


def local(text):
    """A number written the English way, in both ways: 1,234.5 and 1.234,5."""
    return both(text, text.translate(str.maketrans(",.", ".,")))


def count(rng):
    value = rng.randint(2, 10 ** rng.randint(2, 7))
    return local(f"{value:,}" if value > 9999 or rng.random() < 0.5 else str(value))


def decimal(rng):
    return local(f"{rng.uniform(0, 10 ** rng.randint(1, 3)):.{rng.randint(1, 2)}f}")


def percent(rng):
    number = decimal(rng) if rng.random() < 0.5 else both(*[str(rng.randint(2, 99))] * 2)
    english, german = rng.choice((("%", " %"), (" %", " %"), (" percent", " Prozent"),
                                  (" per cent", " Prozent")))  # fmt: skip
    return both(number["en"] + english, number["de"] + german)


def money(rng):
    value = rng.randint(2, 10 ** rng.randint(2, 6))
    english, german = rng.choice(
        (("€{}", "{} €"), ("{} euros", "{} Euro"), ("EUR {}", "{} EUR"), ("${}", "{} $"),
         ("{} dollars", "{} Dollar"), ("£{}", "{} £"), ("CHF {}", "{} CHF"), ("{} €", "{} €"),
         ("{} million euros", "{} Millionen Euro"), ("{} billion dollars", "{} Milliarden Dollar"))
    )  # fmt: skip
    if "illi" in english:
        number = local(f"{value % 1000 + 2}{rng.choice(('', '', '.5', '.2', '.75'))}")
    else:
        number = local(f"{value:,}" + (f".{rng.randint(0, 99):02}" if rng.random() < 0.4 else ""))
    return both(english.format(number["en"]), german.format(number["de"]))


MONTHS = (
    "January February March April May June July August September October November December".split(),
    "Januar Februar März April Mai Juni Juli August September Oktober November Dezember".split(),
)


def date(rng):
    day, month, y = rng.randint(1, 28), rng.randint(0, 11), year(rng)
    english, german = MONTHS[0][month], MONTHS[1][month]
    r = rng.random()
    if r < 0.2:
        return both(*[f"{y}-{month + 1:02}-{day:02}"] * 2)
    if r < 0.35:
        return both(*[f"{day:02}.{month + 1:02}.{y}"] * 2)
    if r < 0.7:
        return both(f"{day} {english} {y}", f"{day}. {german} {y}")
    return both(f"{english} {day}, {y}", f"{day}. {german} {y}")


def year(rng):
    return str(rng.randint(1700, 2060) if rng.random() < 0.3 else rng.randint(1950, 2035))


def emoji(rng):
    r = rng.random()
    if r < 0.1:
        return rng.choice(FACES)
    if r < 0.75:
        return rng.choice(EMOJI)
    low, high = rng.choice(BLOCKS)
    return chr(rng.randint(low, high))


HOLES = {
    "url": url, "mail": mail, "path": path, "file": file, "code": code, "hole": hole, "name": name,
    "firm": firm, "place": place, "id": identity, "version": version, "time": time, "date": date,
    "money": money, "count": count, "percent": percent, "phone": phone, "year": year,
    "street": street, "decimal": decimal, "tag": tag,
}  # fmt: skip


def fill(rng, pair, langs):
    """Fills the holes of a template, the same thing on both sides; pair and langs in one order."""
    made = {}

    def put(match, lang):
        hole_name = match.group(1)
        if hole_name not in made:
            made[hole_name] = HOLES[hole_name.rstrip("2")](rng)
        value = made[hole_name]
        return value[lang] if isinstance(value, dict) else value

    return [re.sub(r"\{([a-z]+2?)\}", lambda m, g=g: put(m, g), s) for s, g in zip(pair, langs)]
