"""The limits of one picture, and the reasons for which one counts as nothing but zeros."""

MOST_BYTES = 20 * 10**6
MOST_PIXELS = 50 * 10**6  #: width times height as its header says, before anything is decoded
LONGEST_PATH, DEEPEST_PATH = 4096, 32

#: what a steward reads after "1,234 pictures"
NONE = "are not there: the row names none"
OUTSIDE = "are not below the folder: a path from its top without .. is"
ABSENT = "name no file that can be read"
NOT_PLAIN = "are reached over a link, or are not plain files"
LARGE = f"have more than {MOST_BYTES // 10**6} MB"
HUGE = f"have more than {MOST_PIXELS // 10**6} megapixels"
BROKEN = "are not a whole PNG or JPEG"
SHARED = "are named by rows of several people, so that no noise hides who is pictured there"
UNLIKE = "do not have the declared shape, or hold something other than numbers"
