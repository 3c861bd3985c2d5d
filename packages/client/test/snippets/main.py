import sys
from verify import is_from_keyhook

for line in open(sys.argv[1], encoding="utf-8"):
    file, header, *secrets = line.rstrip("\n").split("\t")
    print(is_from_keyhook(open(file, "rb").read(), header, *secrets))
