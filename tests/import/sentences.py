#!/usr/bin/env python3
"""Plain sentences to compare engines on: sentences.py en|pt|zh N prints the first N.

Always the same. Parts are put together so that every sentence is one that somebody could say;
every third has a clause before it."""
import sys

PARTS = {
    "en": (
        ["My neighbour", "The old teacher", "Our youngest daughter", "A friend of mine from Porto",
         "The engineer who repaired the bridge", "Nobody in the village", "The new mayor",
         "The captain of the ship", "Everyone at the office", "The baker across the street",
         "A tall woman in a red coat"],
        ["bought fresh bread at the market this morning.", "has never seen the sea.",
         "wants to learn how to play the piano.", "lost the keys to the car last night.",
         "thinks that the train will be late again.", "wrote a long letter to the newspaper.",
         "was surprised by the price of the tickets.", "is looking for a quiet place to read.",
         "could not remember the name of the hotel.", "drinks two cups of coffee before breakfast.",
         "asked me whether the museum opens on Mondays.",
         "planted three apple trees in the garden.",
         "said that the winter of 1987 was the coldest of all."],
        ["It rained the whole day, but ", "Because the road was closed, ", "As far as I know, ",
         "When the lights went out, ", "According to the report, "]),
    "pt": (
        ["O meu vizinho", "A velha professora", "A nossa filha mais nova", "Um amigo meu de Lisboa",
         "O engenheiro que consertou a ponte", "Ninguém na aldeia", "O novo presidente da câmara",
         "O capitão do navio", "Toda a gente no escritório", "O padeiro do outro lado da rua",
         "Uma mulher alta de casaco vermelho"],
        ["comprou pão fresco no mercado esta manhã.", "nunca viu o mar.",
         "quer aprender a tocar piano.", "perdeu as chaves do carro ontem à noite.",
         "acha que o comboio vai chegar atrasado outra vez.", "escreveu uma longa carta ao jornal.",
         "ficou surpreendido com o preço dos bilhetes.", "procura um lugar calmo para ler.",
         "não conseguia lembrar-se do nome do hotel.",
         "bebe duas chávenas de café antes do almoço.",
         "perguntou-me se o museu abre às segundas-feiras.", "plantou três macieiras no jardim.",
         "disse que o inverno de 1987 foi o mais frio de todos."],
        ["Choveu o dia inteiro, mas ", "Como a estrada estava fechada, ", "Que eu saiba, ",
         "Quando as luzes se apagaram, ", "De acordo com o relatório, "]),
    "zh": (
        ["我的邻居", "那位老教师", "我们的小女儿", "我的一个来自上海的朋友", "修桥的工程师", "村里没有人",
         "新市长", "船长", "办公室里的每个人", "街对面的面包师", "穿红大衣的高个子女人"],
        ["今天早上在市场上买了新鲜的面包。", "从来没有见过大海。", "想学弹钢琴。", "昨晚丢了车钥匙。",
         "认为火车又要晚点了。", "给报纸写了一封长信。", "对票价感到惊讶。", "正在找一个安静的地方看书。",
         "想不起酒店的名字了。", "早餐前喝两杯咖啡。", "问我博物馆星期一是否开放。",
         "在花园里种了三棵苹果树。", "说1987年的冬天是最冷的。", "明年春天要搬到北京去住。",
         "希望孩子们每天多读一个小时的书。", "不相信电视上说的话。", "把自行车借给了弟弟。",
         "在图书馆工作了二十年。", "喜欢在下雨的时候散步。"],
        ["雨下了一整天，但是", "因为路被封了，", "据我所知，", "灯灭的时候，", "根据报告，"]),
}


def lower(text, language):
    return text if language == "zh" else text[0].lower() + text[1:]


def sentences(language, n):
    who, what, before = PARTS[language]
    for i in range(n):
        text = who[i % len(who)] + ("" if language == "zh" else " ") + what[i % len(what)]
        yield before[i // 3 % len(before)] + lower(text, language) if i % 3 == 2 else text


if __name__ == "__main__":
    for line in sentences(sys.argv[1], int(sys.argv[2])):
        print(line)
