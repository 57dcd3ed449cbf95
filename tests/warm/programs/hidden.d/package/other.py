from .part import inner
