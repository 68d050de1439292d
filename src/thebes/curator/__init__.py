"""Questions over many people's rows: what each needs of a schema, the whole numbers that answer it, the noise that
hides one person in them, and what may be read off the noisy numbers. A library: who asks, who pays and who may know is
the business of those who use it.
"""
