"""How much a decoded run of letters looks like something that people write: what tells one encoding from another.

The sets are the commonest characters of system messages and of running text in each language; they decide between
encodings that accept the same bytes, nothing else.
"""

_SIMPLIFIED = frozenset(
    "的一是不了在有人我他这为之来以个中上们到说和地出要时得可下你生自会那后能对着事其里所去行过家十用发天如然作方成者多日都三"
    "小军二无同么经法当起与好看学进种将还分此心前面又定见只主没公从模块找指程序错误文件路径系统命令内部外运批处理败启动加载"
    "连接请求拒绝访问内存页面太完操被使初始化例失正重新安装包版本环境变量输入打开无效参数支持警告信息提供式该驱显卡设备"
)
_TRADITIONAL = frozenset(
    "的一是不了在有人我他這為之來以個中上們到說和地出要時得可下你生自會那後能對著事其裡所去行過家十用發天如然作方成者多日都三"
    "小無同麼經法當起與好看學進種將還分此心前面又定見只主沒公從模組找指程式錯誤檔案路徑系統命令內部外執批處理敗啟動載入"
    "連接請求拒絕存取記憶體頁太完操被使初始化例失正重新安裝版本環境變數輸開效參支援警告訊息提供該驅顯卡設備"
)
_JAPANESE = frozenset(
    "指定見場合日本語実行失敗処理要求項目存在無効名前認識内部外部作用可能操出来動中言葉時間開始終了更新情報設定読込書必要"
)
_KOREAN = frozenset(
    "이다는을의에가를은고지하수있로들사도해인한것대기없자시리서일어그나만여지된니찾정프로시저모듈오류파램명령실행할습메모부족액세스거"
    "설치경환변버전드라버장입력출력용량음합제"
)
_CYRILLIC = frozenset("оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфё")
_COMMON_CYRILLIC = frozenset("оеаинтсрвлкмдпу")
_ACCENTED = frozenset("éèêàçùâîôûëïœäöüßáíóúñãõåæøÉÀÇÄÖÜ«»°’“”–ìò¿¡Ññ")


def score(text: str, encoding: str) -> float:
    """About +2 for each byte of a run of everyday text in that encoding's language, negative for nonsense."""
    judge = {
        "gb18030": _chinese,
        "big5": _chinese_traditional,
        "cp932": _japanese,
        "cp949": _korean,
        "cp1251": _russian,
        "cp866": _russian,
    }.get(encoding, _latin)
    return judge(text)


def _east(text: str, common: frozenset[str], low: str, high: str) -> float:
    total = 0.0
    for one in text:
        if one < "\x80":
            continue
        if one in common:
            total += 5
        elif low <= one <= high:
            total += 1
        elif "\u3000" <= one <= "\u303f" or "\uff01" <= one <= "\uff5e" or "\u2010" <= one <= "\u2026":
            total += 2
        else:
            total -= 4
    return total


def _chinese(text: str) -> float:
    return _east(text, _SIMPLIFIED, "\u4e00", "\u9fa5")


def _chinese_traditional(text: str) -> float:
    return _east(text, _TRADITIONAL, "\u4e00", "\u9fa5") - 0.01 * len(text)


def _japanese(text: str) -> float:
    total = 0.0
    for one in text:
        if "\u3041" <= one <= "\u3093" or "\u30a1" <= one <= "\u30fc":
            total += 4
        elif "\uff61" <= one <= "\uff9f":
            # Half-width kana are one byte each: other encodings' bytes come out as rows of them.
            total -= 1
        elif one >= "\x80":
            total += _east(one, _JAPANESE, "\u4e00", "\u9fa5")
    return total


def _korean(text: str) -> float:
    return _east(text, _KOREAN, "\uac00", "\ud7a3")


def _russian(text: str) -> float:
    total, before = 0.0, " "
    for one in text:
        lower = one.lower()
        if lower in _CYRILLIC:
            total += 2 if lower in _COMMON_CYRILLIC else 1
            if one != lower and before.lower() in _CYRILLIC and before == before.lower():
                total -= 4
            if before.isascii() and before.isalpha():
                total -= 2
        elif one >= "\x80":
            total += 0 if one in "«»№—–“”" else -3
        before = one
    return total


def _latin(text: str) -> float:
    total, before = 0.0, " "
    for one in text:
        if one >= "\x80":
            total += 1.5 if one in _ACCENTED else -2
            if before >= "\x80" and (before not in "«»“”’" and one not in "«»“”’"):
                total -= 3
            if one.isupper() and before.islower():
                total -= 3
        before = one
    return total
