"""placeholder"""
def run(lease): return 0
